/**
 * Rules of HTTPRoute and GRPCRoute as routes of a virtual service: one for each match, because the matches of all
 * routes of a hostname are sorted together.
 */
import {
  derivedRouteProblem,
  type FilteredBackend,
  fingerprintOf,
  type HttpMatch,
  type HttpRetries,
  type HttpRoute,
  type HttpRouteDestination,
  type HttpRouteRule,
  keyOf,
  type Resource,
  type ResourceKey,
  type RouteFilter,
} from '../../../resources/index.ts';
import { type Backend, type BackendContext, resolveBackend } from '../backends/backends.ts';
import type { Complaint } from '../conditions.ts';
import { comparePrecedence, type MatchOrigin, type Precedence } from '../precedence.ts';
import { backendHeaders, type FilterResult, readFilters } from './filters.ts';
import { type CompiledMatch, type CompiledMatches, grpcMatches, httpMatches } from './matches.ts';
import { type ListenerScheme, redirectPort, toRedirect, toRewrite } from './paths.ts';

/** The action of a match of a rule. */
export interface CompiledRoute {
  /** The route; a redirect in it has no port yet. */
  readonly http: HttpRoute;
  readonly redirect: RouteFilter['requestRedirect'];
}

/** A match with its place in the order of all matches of a hostname. */
export interface RankedMatch extends Precedence, MatchOrigin {
  readonly key: ResourceKey;
}

export interface CompiledRules {
  /** All matches, in their order: the same list until the content of the route changes. */
  readonly matches: readonly RankedMatch[];
  /** The action of a match; undefined for a match that is left out. */
  readonly routeOf: (match: RankedMatch) => CompiledRoute | undefined;
  /** A hash of everything that determines the routes of the matches. */
  readonly digest: string;
  /** Backends that receive requests or copies of them. */
  readonly backends: readonly Backend[];
  /** Rules that cannot be served as written, by their index: their requests are refused. */
  readonly unsupported: ReadonlyMap<number, Complaint>;
  readonly unresolved: Complaint | undefined;
  readonly ruleCount: number;
}

type HttpResource = Resource<'HTTPRoute'> | Resource<'GRPCRoute'>;

interface Rule {
  readonly name: string;
  readonly matches: CompiledMatches;
  readonly filters: readonly RouteFilter[];
  readonly backendRefs: readonly FilteredBackend[];
  readonly timing: Pick<HttpRoute, 'timeout' | 'retries'>;
}

/** The parts of a compiled route that only depend on its content, and not on its references. */
interface ParsedRoute {
  readonly rules: readonly Rule[];
  /** In order of precedence. */
  readonly matches: readonly RankedMatch[];
  readonly digest: string;
}

const parsedRoutes = new WeakMap<HttpResource, ParsedRoute>();

function parsedRoute(route: HttpResource): ParsedRoute {
  const known = parsedRoutes.get(route);
  if (known !== undefined) return known;
  const rules = rulesOf(route);
  const { created, namespace, name } = route.meta;
  const key = keyOf(route);
  const ranked = rules.flatMap(({ matches }, rule) =>
    matches.matches.map(({ path, length, method, headers, parameters }, match): RankedMatch => {
      const precedence = { path: path.type, length, method, headers, parameters };
      return { ...precedence, key, created, route: `${namespace}/${name}`, rule, match };
    }),
  );
  const { hostnames: _, parentRefs: __, ...content } = route.content;
  const digest = fingerprintOf(route.kind, { namespace, name, labels: {}, annotations: {} }, content);
  const parsed = { rules, matches: ranked.sort(comparePrecedence), digest };
  parsedRoutes.set(route, parsed);
  return parsed;
}

/** Failures without a response, which are retried whatever codes a rule lists. */
const NO_ANSWER = ['connect-failure', 'refused-stream'];
const TIMEOUT = 504;

/** Default number of attempts of a rule, as for other routes of the mesh. */
const DEFAULT_ATTEMPTS = 2;

function toRetries({ timeouts, retry }: HttpRouteRule): Pick<HttpRoute, 'timeout' | 'retries'> {
  const { request, backendRequest = 0 } = timeouts ?? {};
  const timeout = request === undefined ? {} : { timeout: request };
  if (retry?.attempts === 0) {
    // A single attempt may take as long as the shorter of the two.
    const limits = [request ?? 0, backendRequest].filter((limit) => limit > 0);
    return { ...timeout, ...(limits.length === 0 ? {} : { timeout: Math.min(...limits) }), retries: { attempts: 0 } };
  }
  if (retry === undefined && backendRequest <= 0) return timeout;
  const perTry = backendRequest <= 0 ? {} : { perTryTimeout: backendRequest };
  return { ...timeout, retries: { attempts: retry?.attempts ?? DEFAULT_ATTEMPTS, ...toRetryPolicy(retry), ...perTry } };
}

function toRetryPolicy(retry: HttpRouteRule['retry']): HttpRetries {
  if (retry === undefined) return {};
  const { codes = [], backoff } = retry;
  // An attempt that takes too long is a stream that the proxy itself resets.
  const conditions = [...codes, ...NO_ANSWER, ...(codes.includes(TIMEOUT) ? ['reset'] : [])];
  return { retryOn: conditions.join(','), ...(backoff === undefined ? {} : { backoff }) };
}

function rulesOf(route: HttpResource): readonly Rule[] {
  const nameOf = (name: string | undefined, index: number): string =>
    `${route.kind}/${route.meta.namespace}/${route.meta.name}/${name ?? index}`;
  if (route.kind === 'HTTPRoute') {
    return ((route as Resource<'HTTPRoute'>).content.rules ?? []).map((rule, index) => ({
      name: nameOf(rule.name, index),
      matches: httpMatches(rule.matches ?? []),
      filters: rule.filters ?? [],
      backendRefs: rule.backendRefs ?? [],
      timing: toRetries(rule),
    }));
  }
  return ((route as Resource<'GRPCRoute'>).content.rules ?? []).map((rule, index) => ({
    name: nameOf(rule.name, index),
    matches: grpcMatches(rule.matches ?? []),
    filters: rule.filters ?? [],
    backendRefs: rule.backendRefs ?? [],
    timing: {},
  }));
}

export function compileRules(route: HttpResource, context: BackendContext): CompiledRules {
  const backends: Backend[] = [];
  const unsupported = new Map<number, Complaint>();
  let unresolved: Complaint | undefined;
  const { rules, matches, digest: ofRules } = parsedRoute(route);
  const actions = rules.map((rule, index) => {
    const action = compileAction(rule, context);
    unresolved ??= action.unresolved;
    backends.push(...action.backends);
    const made = compileRoutes(rule, action);
    const { http, filters } = action;
    if (!('reason' in made)) return { http, made, redirect: filters.redirect };
    unsupported.set(index, made);
    return { http, made: rule.matches.matches.map((match) => refused(rule.name, match)), redirect: undefined };
  });
  const routeOf = ({ rule, match }: RankedMatch): CompiledRoute | undefined => {
    const { made, redirect } = actions[rule] ?? {};
    const http = made?.[match];
    return http && { http, redirect };
  };
  // Routes depend on the rules and on the resolved references.
  const digest = `${ofRules} ${JSON.stringify(actions.map(({ http }) => http))}`;
  return { matches, routeOf, digest, backends, unsupported, unresolved, ruleCount: rules.length };
}

/** The response of a rule that cannot be served: its requests must not reach another rule instead. */
const REFUSED: HttpRoute = { directResponse: { status: 500 } };

/**
 * The routes of a rule's matches, or why the rule is not served. A rule is not served without one of its matches,
 * because that would change its meaning.
 */
function compileRoutes(
  { name, matches: { matches, unsupported } }: Rule,
  action: Action,
): readonly HttpRoute[] | Complaint {
  const made: HttpRoute[] = [];
  // The action of most rules is the same for all of their matches.
  const problem = derivedRouteProblem(action.http);
  for (const { match, path, problem: ofMatch } of matches) {
    const http = withPath(action, path);
    if ('reason' in http) return action.unsupported ?? http;
    const whole = withMatch(name, http, match);
    const message = http === action.http ? (problem ?? ofMatch) : derivedRouteProblem(whole);
    // Configuration that Envoy would refuse is refused here, so that it affects only this rule.
    if (message !== undefined) return action.unsupported ?? { reason: 'UnsupportedValue', message };
    made.push(whole);
  }
  return action.unsupported ?? unsupported ?? made;
}

/** The response for a match of a rule that is not served; undefined for a match that Envoy cannot compare. */
function refused(name: string, { match, problem }: CompiledMatch): HttpRoute | undefined {
  return problem === undefined ? withMatch(name, REFUSED, match) : undefined;
}

interface Action {
  /** The route without the parts that depend on the match. */
  readonly http: HttpRoute;
  readonly filters: FilterResult;
  readonly backends: readonly Backend[];
  readonly unsupported: Complaint | undefined;
  readonly unresolved: Complaint | undefined;
}

function compileAction(rule: Rule, context: BackendContext): Action {
  const filters = readFilters(context, rule.filters);
  const targets = compileTargets(rule.backendRefs, context);
  const unsupported = filters.unsupported ?? targets.unsupported;
  const unresolved = filters.unresolved ?? targets.unresolved;
  const backends = [...targets.backends, ...filters.backends];
  const common = { filters, backends, unsupported, unresolved };
  if (unsupported !== undefined || filters.unresolved?.isFatal === true) return { ...common, http: REFUSED };
  const { headers, corsPolicy } = filters.fields;
  const always = { ...(headers && { headers }), ...(corsPolicy && { corsPolicy }) };
  if (filters.redirect !== undefined) return { ...common, http: always };
  if (!targets.destinations.some(({ unusable }) => unusable === undefined)) {
    return { ...common, http: { ...always, ...REFUSED } };
  }
  return { ...common, http: { ...filters.fields, ...rule.timing, route: targets.destinations } };
}

function withPath({ http, filters }: Action, path: CompiledMatch['path']): HttpRoute | Complaint {
  if (http.directResponse !== undefined) return http;
  if (filters.redirect !== undefined) {
    const redirect = toRedirect(filters.redirect, path);
    return 'reason' in redirect ? redirect : { ...http, redirect };
  }
  if (filters.rewrite === undefined) return http;
  const rewrite = toRewrite(filters.rewrite, path);
  if (rewrite === undefined) return http;
  return 'reason' in rewrite ? rewrite : { ...http, rewrite };
}

function withMatch(name: string, http: HttpRoute, match: HttpMatch | undefined): HttpRoute {
  return match === undefined ? { name, ...http } : { name, match: [match], ...http };
}

interface Targets {
  /** The destinations with a weight; none when all weights are 0. */
  readonly destinations: HttpRouteDestination[];
  readonly backends: readonly Backend[];
  readonly unsupported: Complaint | undefined;
  readonly unresolved: Complaint | undefined;
}

function compileTargets(references: readonly FilteredBackend[], context: BackendContext): Targets {
  const destinations: HttpRouteDestination[] = [];
  const backends: Backend[] = [];
  let unsupported: Complaint | undefined;
  let unresolved: Complaint | undefined;
  for (const reference of references) {
    const { weight = 1, filters = [] } = reference;
    const backend = resolveBackend(context, reference);
    const headers = backendHeaders(filters);
    if (headers !== undefined && 'reason' in headers) unsupported ??= headers;
    if ('reason' in backend) {
      unresolved ??= backend;
      if (weight > 0) destinations.push({ destination: { host: '' }, weight, unusable: true });
      continue;
    }
    backends.push(backend);
    if (weight <= 0) continue;
    destinations.push({
      destination: { host: backend.host, port: { number: backend.port } },
      weight,
      ...(headers === undefined || 'reason' in headers ? {} : { headers }),
    });
  }
  return { destinations, backends, unsupported, unresolved };
}

/** The route for a listener, which decides the port of a redirect. */
export function routeAt({ http, redirect }: CompiledRoute, listener: ListenerScheme): HttpRoute {
  if (redirect === undefined || http.redirect === undefined) return http;
  return { ...http, redirect: { ...http.redirect, ...redirectPort(redirect, listener) } };
}
