/** Which workloads' traffic rules can match: proxies of others need neither filter nor access logger. */
import type { PolicyConfig, Rule } from '../types.ts';

/** Whether a rule can match traffic of a workload before it is answered (checks), and afterwards (reports). */
export interface Reach {
  readonly checks: boolean;
  readonly reports: boolean;
}

/**
 * @param facts attributes of strings that all traffic of the workload has, such as `destination.namespace`; a rule
 * whose condition requires another value for one of them cannot match
 */
export function reachOf(
  { rules }: Pick<PolicyConfig, 'rules'>,
  { namespace, facts }: { readonly namespace: string; readonly facts: ReadonlyMap<string, string> },
): Reach {
  const matching = rules.filter(
    (rule) => (rule.namespace === undefined || rule.namespace === namespace) && canMatch(rule, facts),
  );
  return { checks: matching.some(isChecked), reports: matching.some(isReported) };
}

function canMatch({ match }: Rule, facts: ReadonlyMap<string, string>): boolean {
  return [...(match?.equalities ?? [])].every(([name, value]) => (facts.get(name) ?? value) === value);
}

function isChecked({ broken, actions, requestHeaders, responseHeaders }: Rule): boolean {
  const headers = requestHeaders.length + responseHeaders.length > 0;
  return (
    broken !== undefined ||
    headers ||
    actions.some(({ instances }) => instances.some(({ variety }) => variety !== 'REPORT'))
  );
}

function isReported({ actions }: Rule): boolean {
  return actions.some(({ instances }) => instances.some(({ variety }) => variety === 'REPORT'));
}
