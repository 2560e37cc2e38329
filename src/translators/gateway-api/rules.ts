/**
 * Rules of HTTPRoute and GRPCRoute as routes of a virtual service: one for each match, because matches of all routes of
 * a hostname are put in one order.
 */
import {
  derivedRouteProblem,
  type FilteredBackend,
  type HttpMatch,
  type HttpRoute,
  type HttpRouteDestination,
  type Resource,
  type RouteFilter,
} from '../../resources/index.ts';
import { type Backend, type BackendContext, resolveBackend } from './backends.ts';
import type { Complaint } from './conditions.ts';
import { backendHeaders, type FilterResult, readFilters } from './filters.ts';
import { type CompiledMatch, type CompiledMatches, grpcMatches, httpMatches } from './matches.ts';
import { redirectOf, redirectPort, rewriteOf } from './paths.ts';
import type { MatchOrigin, Precedence } from './precedence.ts';
import { retriesOf } from './retries.ts';

/** A match of a rule, with what it does. */
export interface CompiledRoute extends Precedence, MatchOrigin {
  /** A redirect has no port yet. */
  readonly http: HttpRoute;
  readonly redirect: RouteFilter['requestRedirect'];
}

export interface CompiledRules {
  readonly routes: readonly CompiledRoute[];
  /** Backends that get requests. */
  readonly backends: readonly Backend[];
  /** Rules that cannot be served as written, by their index: their requests are refused. */
  readonly unsupported: ReadonlyMap<number, Complaint>;
  readonly unresolved: Complaint | undefined;
  readonly ruleCount: number;
}

type HttpResource = Resource<'HTTPRoute'> | Resource<'GRPCRoute'>;

/** A rule of either kind. */
interface Rule {
  readonly name: string | undefined;
  readonly matches: CompiledMatches;
  readonly filters: readonly RouteFilter[];
  readonly backendRefs: readonly FilteredBackend[];
  readonly timing: Pick<HttpRoute, 'timeout' | 'retries'>;
}

function rulesOf(route: HttpResource): readonly Rule[] {
  if (route.kind === 'HTTPRoute') {
    return ((route as Resource<'HTTPRoute'>).content.rules ?? []).map((rule) => ({
      name: rule.name,
      matches: httpMatches(rule.matches ?? []),
      filters: rule.filters ?? [],
      backendRefs: rule.backendRefs ?? [],
      timing: retriesOf(rule),
    }));
  }
  return ((route as Resource<'GRPCRoute'>).content.rules ?? []).map((rule) => ({
    name: rule.name,
    matches: grpcMatches(rule.matches ?? []),
    filters: rule.filters ?? [],
    backendRefs: rule.backendRefs ?? [],
    timing: {},
  }));
}

export function compileRules(route: HttpResource, context: BackendContext): CompiledRules {
  const { created, namespace, name } = route.meta;
  const id = `${namespace}/${name}`;
  const routes: CompiledRoute[] = [];
  const backends: Backend[] = [];
  const unsupported = new Map<number, Complaint>();
  let unresolved: Complaint | undefined;
  const rules = rulesOf(route);
  for (const [index, rule] of rules.entries()) {
    const action = actionOf(rule, context);
    unresolved ??= action.unresolved;
    backends.push(...action.backends);
    const name = `${route.kind}/${id}/${rule.name ?? index}`;
    const made = madeOf(rule.matches, action);
    if ('reason' in made) unsupported.set(index, made);
    for (const [position, { match, path, ...precedence }] of rule.matches.matches.entries()) {
      const http = 'reason' in made ? refused(match) : made[position];
      if (http === undefined) continue;
      const redirect = 'reason' in made ? undefined : action.filters.redirect;
      const origin = { created, route: id, rule: index, match: position };
      routes.push({ ...precedence, path: path.type, ...origin, http: { name, ...http }, redirect });
    }
  }
  return { routes, backends, unsupported, unresolved, ruleCount: rules.length };
}

/** A rule's answer where it cannot do what it should: its requests must not reach another rule instead. */
const REFUSED: HttpRoute = { directResponse: { status: 500 } };

/** The routes of a rule's matches, or why the rule is not served: a rule without one of its matches is another rule. */
function madeOf({ matches, unsupported }: CompiledMatches, action: Action): readonly HttpRoute[] | Complaint {
  const made: HttpRoute[] = [];
  for (const { match, path } of matches) {
    const http = checked(withPath(action, path), match);
    if ('reason' in http) return action.unsupported ?? http;
    made.push(http);
  }
  return action.unsupported ?? unsupported ?? made;
}

/** The answer for a match of a rule that is not served; undefined for a match that Envoy cannot compare. */
function refused(match: HttpMatch | undefined): HttpRoute | undefined {
  const http = withMatch(REFUSED, match);
  return derivedRouteProblem(http) === undefined ? http : undefined;
}

interface Action {
  /** Without what depends on the match. */
  readonly http: HttpRoute;
  readonly filters: FilterResult;
  readonly backends: readonly Backend[];
  readonly unsupported: Complaint | undefined;
  readonly unresolved: Complaint | undefined;
}

function actionOf(rule: Rule, context: BackendContext): Action {
  const filters = readFilters(context, rule.filters);
  const targets = targetsOf(rule.backendRefs, context);
  const unsupported = filters.unsupported ?? targets.unsupported;
  const unresolved = filters.unresolved ?? targets.unresolved;
  const common = { filters, backends: targets.backends, unsupported, unresolved };
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
    const redirect = redirectOf(filters.redirect, path);
    return 'reason' in redirect ? redirect : { ...http, redirect };
  }
  if (filters.rewrite === undefined) return http;
  const rewrite = rewriteOf(filters.rewrite, path);
  if (rewrite === undefined) return http;
  return 'reason' in rewrite ? rewrite : { ...http, rewrite };
}

function withMatch(http: HttpRoute, match: HttpMatch | undefined): HttpRoute {
  return match === undefined ? http : { match: [match], ...http };
}

/** What Envoy would refuse is refused here, so that it affects this rule alone. */
function checked(made: HttpRoute | Complaint, match: HttpMatch | undefined): HttpRoute | Complaint {
  if ('reason' in made) return made;
  const http = withMatch(made, match);
  const message = derivedRouteProblem(http);
  return message === undefined ? http : { reason: 'UnsupportedValue', message };
}

interface Targets {
  /** Those with a weight; none where all have weight 0. */
  readonly destinations: HttpRouteDestination[];
  readonly backends: readonly Backend[];
  readonly unsupported: Complaint | undefined;
  readonly unresolved: Complaint | undefined;
}

function targetsOf(references: readonly FilteredBackend[], context: BackendContext): Targets {
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
export function routeAt(
  { http, redirect }: CompiledRoute,
  listener: { readonly port: number; readonly scheme: 'http' | 'https' },
): HttpRoute {
  if (redirect === undefined || http.redirect === undefined) return http;
  return { ...http, redirect: { ...http.redirect, ...redirectPort(redirect, listener) } };
}
