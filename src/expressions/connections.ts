/**
 * Which expressions are for TCP connections: these have no attributes of requests, so that a condition that needs one
 * does not match.
 */
import { canBeTrue } from './possible.ts';

const OF_REQUESTS = /^(?:request|response|api)\./;
const CONNECTION = {
  values: new Map([['context.protocol', 'tcp']]),
  isMissing: (name: string) => OF_REQUESTS.test(name),
} as const;

/** Whether a condition can be true for a connection. */
export function matchesConnections(match: string | undefined): boolean {
  return match === undefined || match === '' || canBeTrue(match, CONNECTION);
}

/** Whether an attribute is of requests only. */
export function isOfRequests(attribute: string): boolean {
  return OF_REQUESTS.test(attribute);
}

/** The same for expressions that are not compiled: whether one reads an attribute of requests. */
export function readsRequests(expression: string): boolean {
  const withoutStrings = expression.replaceAll(/"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`/g, '');
  return /(?<![\w.])(?:request|response|api)\./.test(withoutStrings);
}
