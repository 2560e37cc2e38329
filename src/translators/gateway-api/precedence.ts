/**
 * The order of matches of all routes of a hostname (HTTPRouteRule.matches, GRPCRouteRule.matches): the first that
 * applies to a request decides.
 */

export interface Precedence {
  /** The type of the path match, the most specific first: exact, regular expression, prefix. */
  readonly path: 'exact' | 'regex' | 'prefix';
  /** The number of characters of the path. */
  readonly length: number;
  readonly method: boolean;
  readonly headers: number;
  readonly parameters: number;
}

/** The route of a match, and the index of the match in it. */
export interface MatchOrigin {
  /** Milliseconds since the epoch. */
  readonly created: number | undefined;
  /** `namespace/name` */
  readonly route: string;
  readonly rule: number;
  readonly match: number;
}

const PATHS = { exact: 0, regex: 1, prefix: 2 };

/** Negative where `a` is before `b`. */
export function comparePrecedence(a: Precedence & MatchOrigin, b: Precedence & MatchOrigin): number {
  return (
    PATHS[a.path] - PATHS[b.path] ||
    b.length - a.length ||
    Number(b.method) - Number(a.method) ||
    b.headers - a.headers ||
    b.parameters - a.parameters ||
    compareRoutes(a, b) ||
    a.rule - b.rule ||
    a.match - b.match
  );
}

/** The oldest route first, then in the order of names. */
export function compareRoutes(
  a: Pick<MatchOrigin, 'created' | 'route'>,
  b: Pick<MatchOrigin, 'created' | 'route'>,
): number {
  return (a.created ?? 0) - (b.created ?? 0) || (a.route < b.route ? -1 : a.route > b.route ? 1 : 0);
}
