/**
 * Which expressions are for TCP connections: these have no attributes of requests, so that a condition that needs one
 * does not match.
 */
import type { Node } from './nodes.ts';
import { parsedInAnySyntax } from './parser.ts';
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

/** Whether an expression that is not compiled reads an attribute of requests in every language that accepts it. */
export function readsRequests(expression: string): boolean {
  const trees = parsedInAnySyntax(expression);
  return trees.length > 0 && trees.every(namesRequests);
}

function namesRequests(node: Node): boolean {
  if (node.kind === 'name') return isOfRequests(node.name);
  if (node.kind === 'literal') return false;
  return (node.kind === 'list' ? node.items : node.args).some(namesRequests);
}
