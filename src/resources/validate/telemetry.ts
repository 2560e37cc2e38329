/** Validates Telemetry. */
import type { TelemetrySpec } from '../schema/telemetry.ts';
import { expressionProblem } from './cel.ts';
import { checkSelector, checkTarget } from './policy-values.ts';
import { each, type ValidationErrors } from './validation-errors.ts';

export function validateTelemetry(spec: TelemetrySpec, errors: ValidationErrors): void {
  checkTarget(spec, errors);
  checkSelector(errors.at('selector'), spec.selector);
  each(errors.at('accessLogging'), spec.accessLogging, ({ filter }, at) => {
    const expression = filter?.expression ?? '';
    const problem = expression === '' ? undefined : expressionProblem(expression);
    if (problem !== undefined) at.add(['filter', 'expression'], problem);
  });
  each(errors.at('metrics'), spec.metrics, ({ overrides }, at) => {
    each(at.at('overrides'), overrides, ({ match, tagOverrides = {} }, override) => {
      if (match?.metric !== undefined && match.customMetric !== undefined)
        override.add(['match', 'customMetric'], 'expected one of metric and customMetric');
      for (const [name, { operation, value = '' }] of Object.entries(tagOverrides)) {
        const problem = operation === 'REMOVE' ? undefined : tagProblem(value);
        if (problem !== undefined) override.add(['tagOverrides', name, 'value'], problem);
      }
    });
  });
}

/** Envoy reads the expression inside a command operator, which ends with `%`. */
function tagProblem(expression: string): string | undefined {
  if (expression === '') return 'expected a CEL expression, because the operation is UPSERT';
  if (/[%\p{Cc}]/u.test(expression)) return 'expected an expression without % or control characters';
  return expressionProblem(expression);
}
