/**
 * Envoy's routes as routes of gRPC clients. gRPC supports a part of the message: it ignores some of the other fields,
 * and rejects a whole resource because of others. Only supported fields are kept. A route with a condition that gRPC
 * requests never meet is left out, so that the next route applies; an unsupported action aborts the request. Sources:
 * https://github.com/grpc/proposal, A28 (routes), A31 (timeouts), A33 (faults), A42 (hashes), A44 (retries)
 */
import { envoy, type google, packAny } from '../../protobuf/index.ts';
import { FAULT_FILTER } from '../filters/index.ts';
import type { HashPolicy, HeaderMatcher, Route, RouteAction, RouteMatch } from '../routes/index.ts';

const { HTTPFault } = envoy.extensions.filters.http.fault.v3;

/** Each header that may be missing doubles the routes of a match. */
const MAX_ABSENT_HEADERS = 4;

/**
 * The gRPC routes for one route: several if gRPC has no single match for it, none if it never applies. Redirects and
 * direct responses have no equivalent, and some implementations fail on them: their requests are aborted. @param
 * cluster any cluster of the service, for routes that need one and never use it
 */
export function grpcRoutes(
  { name, match, route, directResponse, typedPerFilterConfig }: Route,
  cluster: string,
): Route[] {
  const fault = route ? typedPerFilterConfig?.[FAULT_FILTER] : failure(directResponse?.status ?? 0);
  const action = route ? forwarding(route) : { cluster };
  return toGrpcMatches(match ?? {}).map((each) => ({
    ...(name ? { name } : {}),
    match: each,
    route: action,
    ...(fault === undefined ? {} : { typedPerFilterConfig: { [FAULT_FILTER]: fault } }),
  }));
}

function toGrpcMatches(match: RouteMatch): RouteMatch[] {
  // gRPC requests have no query.
  if ((match.queryParameters?.length ?? 0) > 0) return [];
  const path = toGrpcPath(match);
  const headers = toGrpcHeaders(match.headers ?? []);
  return headers.map((each) => ({ ...path, ...(each.length > 0 ? { headers: each } : {}) }));
}

function toGrpcPath({ prefix, path, safeRegex, pathSeparatedPrefix, caseSensitive }: RouteMatch): RouteMatch {
  if (pathSeparatedPrefix) {
    const flags = caseSensitive?.value === false ? '(?i)' : '';
    return { safeRegex: { regex: `${flags}${escapeRegex(pathSeparatedPrefix)}(/.*)?` } };
  }
  const kind = safeRegex ? { safeRegex } : path ? { path } : { prefix: prefix ?? '' };
  return { ...kind, ...(caseSensitive ? { caseSensitive } : {}) };
}

/** A regular expression that matches exactly this string (RE2 syntax). */
function escapeRegex(text: string): string {
  return text.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&');
}

/** Alternative lists of header matchers; none when no request matches. */
function toGrpcHeaders(matchers: readonly HeaderMatcher[]): HeaderMatcher[][] {
  let lists: HeaderMatcher[][] = [[]];
  let absent = 0;
  for (const matcher of matchers) {
    const { name = '', invertMatch } = matcher;
    if (name === ':method') {
      if (matchesText(matcher, 'POST') === Boolean(invertMatch)) return [];
      continue;
    }
    // gRPC does not compare other pseudo headers.
    if (name?.startsWith(':')) return [];
    const { treatMissingHeaderAsEmpty, ...plain } = matcher;
    const compared = comparison(plain);
    if (!treatMissingHeaderAsEmpty) {
      lists = lists.map((list) => [...list, compared]);
      continue;
    }
    // A missing header matches nothing in gRPC, inverted or not.
    absent++;
    if (absent > MAX_ABSENT_HEADERS) return [];
    const missing: HeaderMatcher = { name, presentMatch: true, invertMatch: true };
    lists = lists.flatMap((list) => [
      [...list, missing],
      [...list, compared],
    ]);
  }
  return lists;
}

/** Uses the older fields, which all versions of gRPC support. */
function comparison(matcher: HeaderMatcher): HeaderMatcher {
  const { stringMatch, ...rest } = matcher;
  if (stringMatch?.exact) return { ...rest, exactMatch: stringMatch.exact };
  if (stringMatch?.prefix) return { ...rest, prefixMatch: stringMatch.prefix };
  if (stringMatch?.safeRegex) return { ...rest, safeRegexMatch: stringMatch.safeRegex };
  return matcher;
}

/**
 * Whether a matcher, without its inversion, matches this string. Regular expressions are evaluated only if they have
 * the same meaning in JavaScript and RE2.
 */
function matchesText({ stringMatch, presentMatch }: HeaderMatcher, text: string): boolean {
  if (presentMatch === true) return true;
  const regex = stringMatch?.safeRegex?.regex;
  if (typeof regex === 'string') {
    // Alternatives of plain names, the usual form for methods.
    return /^[A-Za-z|()]+$/.test(regex) && regex.replace(/[()]/g, '').split('|').includes(text);
  }
  if (typeof stringMatch?.prefix === 'string') return text.startsWith(stringMatch.prefix);
  return stringMatch?.exact === text;
}

/** The forwarding action of a route, with the fields that gRPC supports. */
function forwarding(route: RouteAction): RouteAction {
  const { timeout } = route;
  const limited = timeout && ((timeout.seconds ?? 0) !== 0 || (timeout.nanos ?? 0) !== 0);
  const retryPolicy = toGrpcRetries(route);
  const hashPolicy = (route.hashPolicy ?? []).flatMap((policy) => toGrpcHash(policy) ?? []);
  return {
    ...toGrpcClusters(route),
    ...(limited ? { maxStreamDuration: { maxStreamDuration: timeout } } : {}),
    ...(retryPolicy ? { retryPolicy } : {}),
    ...(hashPolicy.length > 0 ? { hashPolicy } : {}),
  };
}

/**
 * gRPC status codes by the equivalent HTTP status
 * (https://grpc.github.io/grpc/core/md_doc_http-grpc-status-mapping.html).
 */
const STATUS_CODES: Readonly<Record<number, number>> = {
  400: 13,
  401: 16,
  403: 7,
  404: 12,
  429: 14,
  502: 14,
  503: 14,
  504: 14,
};
const UNKNOWN = 2;

const ALWAYS = { numerator: 100 };

/** A fault that fails every request with the gRPC status for an HTTP status. */
function failure(httpStatus: number): google.protobuf.Any.Input {
  const abort = { grpcStatus: STATUS_CODES[httpStatus] ?? UNKNOWN, percentage: ALWAYS };
  return packAny(HTTPFault, { abort });
}

/** Clusters by name: gRPC has no other settings for destinations. */
function toGrpcClusters({ cluster, weightedClusters }: RouteAction): Pick<RouteAction, 'cluster' | 'weightedClusters'> {
  if (!weightedClusters) return { cluster: cluster ?? '' };
  const weights = new Map<string, number>();
  for (const { name, weight } of weightedClusters.clusters ?? []) {
    if (!name || !weight?.value) continue;
    weights.set(name, (weights.get(name) ?? 0) + weight.value);
  }
  return { weightedClusters: { clusters: Array.from(weights, ([name, value]) => ({ name, weight: { value } })) } };
}

/** The retry conditions that gRPC supports (A44). */
const CONDITIONS: ReadonlySet<string> = new Set([
  'cancelled',
  'deadline-exceeded',
  'internal',
  'resource-exhausted',
  'unavailable',
]);

function toGrpcRetries({ retryPolicy }: RouteAction): RouteAction['retryPolicy'] | undefined {
  const conditions = (retryPolicy?.retryOn ?? '').split(',').filter((condition) => CONDITIONS.has(condition));
  if (conditions.length === 0) return undefined;
  const { numRetries, retryBackOff } = retryPolicy ?? {};
  return {
    retryOn: conditions.join(','),
    ...(numRetries ? { numRetries } : {}),
    ...(retryBackOff ? { retryBackOff } : {}),
  };
}

/** Key of gRPC's own hash input: one for each channel. */
const CHANNEL_ID = 'io.grpc.channel_id';

/** The closest equivalent of a client's address is its channel. gRPC has no cookies and query parameters. */
function toGrpcHash({ header, connectionProperties }: HashPolicy): HashPolicy | undefined {
  if (header) return { header };
  return connectionProperties?.sourceIp === true ? { filterState: { key: CHANNEL_ID } } : undefined;
}
