/**
 * Routes of VirtualServices that no request reaches, because a route before them takes all of their requests. Only what
 * is certain is reported: a regular expression covers equal ones, and `.*` everything.
 */
import { isObject } from '../core/objects.ts';
import type { Slices } from '../core/slices.ts';
import type { HttpMatch, HttpRoute } from './kinds/schemas.ts';
import type { AnyResource, ResourceChange, ResourceKey } from './kinds/types.ts';

/** A route that no request reaches. */
export interface UnreachedRoute {
  readonly key: ResourceKey;
  /** Its name, or its first condition: `prefix /b`. */
  readonly route: string;
  readonly field: string;
  readonly takenBy: string;
}

/** Pairs of matches that are compared for one document, and for all documents of a change. */
const MAX_PAIRS = 200_000;
const MAX_PAIRS_OF_CHANGE = 2_000_000;
/** Pairs that are compared without interruption. */
const PAIRS_OF_SLICE = 64;

interface Flat {
  /** Position among the routes. */
  readonly route: number;
  readonly match: ComparableMatch;
}

/** A match whose parts are prepared once, for the comparisons with all others. */
interface ComparableMatch {
  readonly path: Path;
  readonly conditions: ReadonlyMap<string, Condition>;
}

interface Condition {
  /** As JSON. */
  readonly text: string;
  /** The members of an object, as JSON. */
  readonly members: ReadonlyMap<string, string> | undefined;
  /** Each member is a condition of its own: `headers`. */
  readonly isMemberwise: boolean;
}

/** What is left of the comparisons of a change. */
interface Budget {
  pairs: number;
  readonly isLate: () => boolean;
}

export interface UnreachedRoutes {
  readonly routes: readonly UnreachedRoute[];
  /** Documents that are not compared to their end. */
  readonly left: number;
}

const ANY: HttpMatch = {};

/**
 * The routes that the changes make unreachable. Yields after each few pairs of matches.
 * @param isLate whether the rest is left out
 */
export function* unreachedRoutes(
  changes: readonly ResourceChange[],
  isLate: () => boolean = () => false,
): Slices<UnreachedRoutes> {
  const budget: Budget = { pairs: MAX_PAIRS_OF_CHANGE, isLate };
  const routes: UnreachedRoute[] = [];
  let left = 0;
  for (const { key, before, after } of changes) {
    const is = yield* unreachedIn(after, budget);
    if (!is.isComplete) left++;
    // What was so before is looked up only where something is found.
    const was = is.found.length === 0 ? undefined : yield* unreachedIn(before, budget);
    const known = new Set(was?.found.map(({ route }) => route));
    for (const each of is.found) if (!known.has(each.route)) routes.push({ key, ...each });
  }
  return { routes, left };
}

interface Unreached {
  readonly found: readonly Omit<UnreachedRoute, 'key'>[];
  readonly isComplete: boolean;
}

function* unreachedIn(resource: AnyResource | undefined, budget: Budget): Slices<Unreached> {
  if (resource?.kind !== 'VirtualService') return { found: [], isComplete: true };
  const { http = [] } = resource.content;
  const earlier: Flat[] = [];
  const found: Omit<UnreachedRoute, 'key'>[] = [];
  let pairs = 0;
  for (const [index, route] of http.entries()) {
    const matches = matchesOf(route).map(comparable);
    pairs += matches.length * earlier.length;
    budget.pairs -= matches.length * earlier.length;
    if (pairs > MAX_PAIRS || budget.pairs < 0 || budget.isLate()) return { found, isComplete: false };
    const first = yield* takerOf(matches, earlier);
    if (first !== undefined)
      found.push({
        route: described(http, index),
        field: `spec.http[${index}]`,
        takenBy: `spec.http[${first.route}] (${described(http, first.route)})`,
      });
    for (const match of matches) earlier.push({ route: index, match });
    yield;
  }
  return { found, isComplete: true };
}

/** That which takes the first match; undefined unless all matches are taken. */
function* takerOf(matches: readonly ComparableMatch[], earlier: readonly Flat[]): Slices<Flat | undefined> {
  let first: Flat | undefined;
  for (const match of matches) {
    let taker: Flat | undefined;
    for (let from = 0; from < earlier.length && taker === undefined; from += PAIRS_OF_SLICE) {
      taker = earlier.slice(from, from + PAIRS_OF_SLICE).find((other) => covers(other.match, match));
      yield;
    }
    if (taker === undefined) return undefined;
    first ??= taker;
  }
  return first;
}

function matchesOf({ match = [] }: HttpRoute): readonly HttpMatch[] {
  return match.length === 0 ? [ANY] : match;
}

/** The name of a route, or its first condition: `prefix /b`. */
function described(routes: readonly HttpRoute[], index: number): string {
  const route = routes[index];
  if (route?.name !== undefined) return route.name;
  const [{ uri, pathPrefix } = ANY] = route === undefined ? [] : matchesOf(route);
  if (pathPrefix !== undefined) return `prefix ${pathPrefix}`;
  const [[kind, value] = ['prefix', '/']] = Object.entries(uri ?? {});
  return `${kind} ${value}`;
}

function comparable(match: HttpMatch): ComparableMatch {
  // Names decide nothing.
  const { name: _name, statPrefix: _stat, uri: _uri, pathPrefix: _prefix, ignoreUriCase: _case, ...conditions } = match;
  const set = Object.entries(conditions).filter(([, value]) => !isEmpty(value));
  return { path: pathOf(match), conditions: new Map(set.map(([field, value]) => [field, conditionOf(value)])) };
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === '' || (typeof value === 'object' && Object.keys(value ?? {}).length === 0);
}

function conditionOf(value: unknown): Condition {
  const members = isObject(value) ? Object.entries(value) : undefined;
  return {
    text: JSON.stringify(value),
    members: members && new Map(members.map(([key, member]) => [key, JSON.stringify(member)])),
    isMemberwise: members?.every(([, member]) => isObject(member) || typeof member === 'string') === true,
  };
}

/** Whether every request that the second one matches is matched by the first one. */
function covers(first: ComparableMatch, second: ComparableMatch): boolean {
  if (!coversPath(first.path, second.path)) return false;
  for (const [field, wanted] of first.conditions) {
    const own = second.conditions.get(field);
    if (own === undefined || !isImplied(wanted, own)) return false;
  }
  return true;
}

/** Whether a condition of the first match is among those of the second. */
function isImplied(wanted: Condition, own: Condition): boolean {
  if (!wanted.isMemberwise || wanted.members === undefined || own.members === undefined)
    return wanted.text === own.text;
  for (const [key, text] of wanted.members) if (own.members.get(key) !== text) return false;
  return true;
}

function coversPath(one: Path, other: Path): boolean {
  if (one.kind === 'prefix' && (one.text === '/' || one.text === '')) return true;
  if (one.kind === 'regex') {
    if (one.text === '.*' || one.text === '/.*') return true;
    return other.kind === 'regex' && other.text === one.text;
  }
  if (other.kind === 'regex' || (other.ignoresCase && !one.ignoresCase)) return false;
  const [from, to] = one.ignoresCase ? [one.lower, other.lower] : [one.text, other.text];
  switch (one.kind) {
    case 'exact':
      return other.kind === 'exact' && from === to;
    case 'prefix':
      return to.startsWith(from);
    case 'segments':
      return (other.kind !== 'prefix' && to === from) || (to.startsWith(from) && to[from.length] === '/');
  }
}

interface Path {
  readonly kind: 'exact' | 'prefix' | 'regex' | 'segments';
  readonly text: string;
  /** In lower case. */
  readonly lower: string;
  readonly ignoresCase: boolean;
}

function pathOf({ uri, pathPrefix, ignoreUriCase = false }: HttpMatch): Path {
  if (pathPrefix !== undefined) return path('segments', pathPrefix, false);
  if (uri === undefined) return path('prefix', '/', ignoreUriCase);
  if ('exact' in uri) return path('exact', uri.exact, ignoreUriCase);
  return 'prefix' in uri ? path('prefix', uri.prefix, ignoreUriCase) : path('regex', uri.regex, false);
}

function path(kind: Path['kind'], text: string, ignoresCase: boolean): Path {
  return { kind, text, lower: text.toLowerCase(), ignoresCase };
}
