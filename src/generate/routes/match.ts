/** Matches of an HTTP route: which of them can apply here at all, and which conditions Envoy compares for these. */
import type { HttpMatch } from '../../resources/index.ts';
import { MESH_GATEWAY, type RouteContext } from './context.ts';
import type { HeaderMatcher, Route, RouteMatch } from './messages.ts';
import { headerMatcher, queryParameterMatcher, withoutHeaderMatcher } from './string-match.ts';

export const ANY_REQUEST: RouteMatch = { prefix: '/' };

/** The conditions that are decided at generation, not for each request. */
export type StaticMatch = Pick<HttpMatch, 'gateways' | 'port' | 'sourceLabels' | 'sourceNamespace'>;

/**
 * Whether a match can apply to requests of this context. Source labels and source namespace are about workloads in the
 * mesh: on a gateway, a match with them applies only if it names that gateway.
 */
export function appliesHere(
  match: StaticMatch,
  virtualServiceNamespace: string,
  context: Pick<RouteContext, 'gateway' | 'port' | 'lookups'>,
): boolean {
  if (match.port !== undefined && match.port !== 0 && match.port !== context.port) return false;
  const gateways = match.gateways ?? [];
  if (gateways.length > 0 && !gateways.some((name) => gatewayKey(name, virtualServiceNamespace) === context.gateway)) {
    return false;
  }
  const labels = match.sourceLabels ?? {};
  const namespace = match.sourceNamespace ?? '';
  if (context.gateway !== MESH_GATEWAY) {
    return gateways.length > 0 || (Object.keys(labels).length === 0 && namespace === '');
  }
  if (Object.keys(labels).length > 0 && !context.lookups.hasLabels(labels)) return false;
  return namespace === '' || context.lookups.isFrom(namespace);
}

/** `namespace/name` of a gateway reference: a bare name refers to the virtual service's own namespace. */
function gatewayKey(name: string, namespace: string): string {
  if (name === MESH_GATEWAY) return name;
  if (name.startsWith('./')) return `${namespace}/${name.slice(2)}`;
  return name.includes('/') ? name : `${namespace}/${name}`;
}

/**
 * The conditions that Envoy compares with each request. Headers are sorted by name, so that equal matches have equal
 * bytes.
 */
export function routeMatch(match: HttpMatch): RouteMatch {
  const headers = headerMatchers(match);
  const queryParameters = sortedEntries(match.queryParams).map(([name, value]) => queryParameterMatcher(name, value));
  return {
    ...pathMatch(match),
    ...(match.ignoreUriCase === true && match.uri !== undefined && !('regex' in match.uri)
      ? { caseSensitive: { value: false } }
      : {}),
    ...(headers.length > 0 ? { headers } : {}),
    ...(queryParameters.length > 0 ? { queryParameters } : {}),
  };
}

function pathMatch({ uri, pathPrefix }: HttpMatch): RouteMatch {
  if (pathPrefix !== undefined) return { pathSeparatedPrefix: pathPrefix };
  if (uri === undefined) return ANY_REQUEST;
  if ('exact' in uri) return { path: uri.exact };
  if ('prefix' in uri) return { prefix: uri.prefix };
  return { safeRegex: { regex: uri.regex } };
}

function headerMatchers(match: HttpMatch): HeaderMatcher[] {
  const pseudo = [
    [':method', match.method],
    [':authority', match.authority],
    [':scheme', match.scheme],
  ] as const;
  return [
    ...sortedEntries(match.headers).map(([name, value]) => headerMatcher(name, value)),
    ...sortedEntries(match.withoutHeaders).map(([name, value]) => withoutHeaderMatcher(name, value)),
    ...pseudo.flatMap(([name, value]) => (value === undefined ? [] : [headerMatcher(name, value)])),
  ];
}

function sortedEntries<T>(record: Readonly<Record<string, T>> | undefined): [string, T][] {
  return Object.entries(record ?? {}).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}

/** Whether a route matches every request, so that nothing after it is ever reached. */
export function isCatchAll({ match }: Route): boolean {
  if (match === null || match === undefined) return false;
  if ((match.headers?.length ?? 0) > 0 || (match.queryParameters?.length ?? 0) > 0) return false;
  const regex = match.safeRegex?.regex;
  return match.prefix === '/' || match.prefix === '' || regex === '.*' || regex === '/.*';
}
