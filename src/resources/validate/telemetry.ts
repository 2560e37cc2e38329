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
}
