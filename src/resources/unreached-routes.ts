/**
 * Routes of VirtualServices that no request reaches, because a route before them takes all of their requests. Only what
 * is certain is reported: a regular expression covers equal ones, and `.*` everything.
 */
import { isObject } from '../core/objects.ts';
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

/** Pairs of matches that are compared for one document. */
const MAX_PAIRS = 200_000;

interface Flat {
  /** Position among the routes. */
  readonly route: number;
  readonly match: HttpMatch;
}

const ANY: HttpMatch = {};

/** The routes that the changes make unreachable. */
export function unreachedRoutes(changes: readonly ResourceChange[]): UnreachedRoute[] {
  return changes.flatMap(({ key, before, after }) => {
    const known = new Set(unreachedIn(before).map(({ route }) => route));
    return unreachedIn(after).flatMap((each) => (known.has(each.route) ? [] : [{ key, ...each }]));
  });
}

function unreachedIn(resource: AnyResource | undefined): Omit<UnreachedRoute, 'key'>[] {
  if (resource?.kind !== 'VirtualService') return [];
  const { http = [] } = resource.content;
  const earlier: Flat[] = [];
  const found: Omit<UnreachedRoute, 'key'>[] = [];
  let pairs = 0;
  for (const [index, route] of http.entries()) {
    const matches = matchesOf(route);
    pairs += matches.length * earlier.length;
    if (pairs > MAX_PAIRS) return found;
    const takers = matches.map((match) => earlier.find((other) => covers(other.match, match)));
    const [first] = takers;
    if (first !== undefined && takers.every((taker) => taker !== undefined))
      found.push({
        route: described(http, index),
        field: `spec.http[${index}]`,
        takenBy: `spec.http[${first.route}] (${described(http, first.route)})`,
      });
    for (const match of matches) earlier.push({ route: index, match });
  }
  return found;
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

/** Whether every request that the second one matches is matched by the first one. */
function covers(first: HttpMatch, second: HttpMatch): boolean {
  // Names decide nothing.
  const { name: _name, statPrefix: _stat, uri: _uri, pathPrefix: _prefix, ignoreUriCase: _case, ...conditions } = first;
  if (!coversPath(first, second)) return false;
  return Object.entries(conditions).every(([field, wanted]) => {
    const own: unknown = second[field as keyof HttpMatch];
    return isEmpty(wanted) || isImplied(wanted, own);
  });
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === '' || (typeof value === 'object' && Object.keys(value ?? {}).length === 0);
}

/** Whether a condition of the first match is among those of the second. */
function isImplied(wanted: unknown, own: unknown): boolean {
  if (
    isObject(wanted) &&
    isObject(own) &&
    Object.values(wanted).every((value) => isObject(value) || typeof value === 'string')
  )
    return Object.entries(wanted).every(([key, value]) => JSON.stringify(own[key]) === JSON.stringify(value));
  return JSON.stringify(wanted) === JSON.stringify(own);
}

function coversPath(first: HttpMatch, second: HttpMatch): boolean {
  const [one, other] = [pathOf(first), pathOf(second)];
  if (one.kind === 'prefix' && (one.text === '/' || one.text === '')) return true;
  if (one.kind === 'regex') {
    if (one.text === '.*' || one.text === '/.*') return true;
    return other.kind === 'regex' && other.text === one.text;
  }
  if (other.kind === 'regex' || (other.ignoresCase && !one.ignoresCase)) return false;
  const [from, to] = one.ignoresCase ? [one.text.toLowerCase(), other.text.toLowerCase()] : [one.text, other.text];
  switch (one.kind) {
    case 'exact':
      return other.kind === 'exact' && from === to;
    case 'prefix':
      return to.startsWith(from);
    case 'segments':
      return (other.kind !== 'prefix' && to === from) || to.startsWith(`${from}/`);
  }
}

interface Path {
  readonly kind: 'exact' | 'prefix' | 'regex' | 'segments';
  readonly text: string;
  readonly ignoresCase: boolean;
}

function pathOf({ uri, pathPrefix, ignoreUriCase = false }: HttpMatch): Path {
  if (pathPrefix !== undefined) return { kind: 'segments', text: pathPrefix, ignoresCase: false };
  const ignoresCase = ignoreUriCase;
  if (uri === undefined) return { kind: 'prefix', text: '/', ignoresCase };
  if ('exact' in uri) return { kind: 'exact', text: uri.exact, ignoresCase };
  return 'prefix' in uri
    ? { kind: 'prefix', text: uri.prefix, ignoresCase }
    : { kind: 'regex', text: uri.regex, ignoresCase: false };
}
