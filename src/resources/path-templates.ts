/** Templates of paths in AuthorizationPolicies: `/a/{*}/b`, `/a/{**}`. Not in the schema, which workers do not load. */

/** One segment of a path, and any number of them. */
const OPERATOR = /\{\*{1,2}\}/;
/** Segments that are compared become parts of a regular expression, whose program Envoy limits. */
const MAX_OPERATORS = 16;

export function isPathTemplate(path: string): boolean {
  return OPERATOR.test(path);
}

/** What is wrong with a template; undefined when nothing is. */
export function templateError(path: string): string | undefined {
  const [first, ...segments] = path.split('/');
  const operators = segments.filter(isPathTemplate);
  if (first !== '') return 'expected a path that begins with "/"';
  if (segments.some((segment) => !/^(?:\{\*{1,2}\}|[^*{}]*)$/.test(segment))) {
    return 'expected {*} and {**} only as whole path segments, and no other "*", "{" or "}"';
  }
  if (operators.slice(0, -1).includes('{**}')) return 'expected no {*} or {**} after {**}';
  return operators.length > MAX_OPERATORS ? `expected at most ${MAX_OPERATORS} {*} segments` : undefined;
}
