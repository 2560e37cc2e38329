/** HTTP routes of a virtual service as Envoy's routes, in order. */
import type { ResolvedVirtualService } from '../../model/index.ts';
import { envoy, type google, packAny } from '../../protobuf/index.ts';
import type { CorsPolicy, HttpMatch, HttpRedirect, HttpRoute } from '../../resources/index.ts';
import { clusterName, configMetadata } from '../common/index.ts';
import { CORS_FILTER, FAULT_FILTER } from '../filters/index.ts';
import { forwardAction, timeoutFields, weighted } from './actions/action.ts';
import { directResponseAction } from './actions/direct-response.ts';
import { faultConfig } from './actions/fault.ts';
import { hashPolicies } from './actions/hash-policy.ts';
import { headerFields } from './actions/headers.ts';
import { retryPolicy } from './actions/retry.ts';
import type { RouteContext } from './context.ts';
import { traced } from './decorator.ts';
import { ANY_REQUEST, appliesHere, isCatchAll, routeMatch } from './match.ts';
import type { RedirectAction, Route } from './messages.ts';
import { stringMatcher } from './string-match.ts';

/** Name of the route of a service without a virtual service. */
const DEFAULT_ROUTE = 'default';

/**
 * The routes of a virtual service that can apply in this context, one for each match, up to the first that matches
 * everything: routes after it are never reached. Empty when none applies.
 */
export function virtualServiceRoutes(virtualService: ResolvedVirtualService, context: RouteContext): Route[] {
  const routes: Route[] = [];
  const origin = configMetadata('virtual-service', virtualService.namespace, virtualService.name);
  for (const http of virtualService.content.http ?? []) {
    const shared = sharedFields(http, context);
    if (shared === undefined) continue;
    for (const match of http.match?.length ? http.match : [undefined]) {
      if (match !== undefined && !appliesHere(match, virtualService.namespace, context)) continue;
      const route = traced({ ...matchedRoute(http, match, shared), ...origin }, virtualService.name, context);
      const { impliedPort } = http.redirect ?? {};
      if (impliedPort !== undefined) routes.push(whereClientsNamePorts(route, impliedPort));
      routes.push(route);
      if (isCatchAll(route)) return routes;
    }
  }
  return routes;
}

/** The same redirect for requests whose host names a port, which the location must not keep. */
function whereClientsNamePorts(route: Route, port: number): Route {
  const named = { name: ':authority', stringMatch: { safeRegex: { regex: '.*:[0-9]+' } } };
  return {
    ...route,
    match: { ...route.match, headers: [...(route.match?.headers ?? []), named] },
    redirect: { ...route.redirect, portRedirect: port },
  };
}

/** Whether {@link virtualServiceRoutes} would return any, without building them. */
export function hasRoutes({ content, namespace }: ResolvedVirtualService, context: RouteContext): boolean {
  return (content.http ?? []).some((http) => {
    const acts = http.redirect !== undefined || http.directResponse !== undefined || (http.route?.length ?? 0) > 0;
    return acts && (!http.match?.length || http.match.some((match) => appliesHere(match, namespace, context)));
  });
}

export function defaultRoute(host: string, port: number, context: RouteContext): Route {
  const retries = retryPolicy(undefined, context.features);
  const hashes = hashPolicies([{ host, port: { number: port } }], context);
  const route: Route = {
    name: DEFAULT_ROUTE,
    match: ANY_REQUEST,
    route: {
      cluster: clusterName('outbound', port, '', host),
      ...timeoutFields(context.defaultTimeoutMs),
      ...(retries === undefined ? {} : { retryPolicy: retries }),
      ...(hashes.length > 0 ? { hashPolicy: hashes } : {}),
    },
  };
  return traced(route, host, context);
}

/**
 * Joins the routes of several virtual services for one host in their order; the first route that matches everything is
 * moved to the end.
 */
export function joinRoutes(lists: readonly (readonly Route[])[]): Route[] {
  const all = lists.flat();
  const catchAll = all.find(isCatchAll);
  const others = all.filter((route) => !isCatchAll(route));
  return catchAll === undefined ? others : [...others, catchAll];
}

function matchedRoute(http: HttpRoute, match: HttpMatch | undefined, shared: Route): Route {
  const name = [http.name, match?.name].filter((part) => part !== undefined && part !== '').join('.');
  return {
    ...(name === '' ? {} : { name }),
    match: match === undefined ? ANY_REQUEST : routeMatch(match),
    ...shared,
    ...(match?.statPrefix ? { statPrefix: match.statPrefix } : {}),
  };
}

const { MOVED_PERMANENTLY, FOUND, SEE_OTHER, TEMPORARY_REDIRECT, PERMANENT_REDIRECT } =
  envoy.config.route.v3.RedirectAction.RedirectResponseCode;

const RESPONSE_CODES: ReadonlyMap<number, NonNullable<RedirectAction['responseCode']>> = new Map([
  [301, MOVED_PERMANENTLY],
  [302, FOUND],
  [303, SEE_OTHER],
  [307, TEMPORARY_REDIRECT],
  [308, PERMANENT_REDIRECT],
]);

/**
 * The redirect as Envoy's action; undefined for a status code that Envoy does not support. Envoy cannot take the port
 * from the request, so the port of the routes is used.
 */
function redirectAction(redirect: HttpRedirect, port: number): RedirectAction | undefined {
  const code = redirect.redirectCode ?? 0;
  const responseCode = code === 0 ? MOVED_PERMANENTLY : RESPONSE_CODES.get(code);
  if (responseCode === undefined) return undefined;
  const portRedirect = redirect.port ?? (redirect.derivePort === 'FROM_REQUEST_PORT' ? port : undefined);
  return {
    ...(redirect.authority ? { hostRedirect: redirect.authority } : {}),
    ...pathFields(redirect),
    ...(redirect.scheme ? { schemeRedirect: redirect.scheme } : {}),
    ...(portRedirect === undefined ? {} : { portRedirect }),
    responseCode,
  };
}

/** At most one of the three, as Envoy requires. */
function pathFields({ uri, uriPrefix, uriRegexRewrite }: HttpRedirect): RedirectAction {
  if (uriRegexRewrite !== undefined) {
    const { match, rewrite } = uriRegexRewrite;
    return { regexRewrite: { pattern: { regex: match }, substitution: rewrite } };
  }
  if (uriPrefix) return { prefixRewrite: uriPrefix };
  return uri ? { pathRedirect: uri } : {};
}

/**
 * The route without name and match; undefined if Envoy cannot perform the action (no destination, an unsupported code).
 */
function sharedFields(http: HttpRoute, context: RouteContext): Route | undefined {
  const filters = perFilterConfig(http, context);
  if (http.redirect !== undefined) {
    const redirect = redirectAction(http.redirect, context.port);
    return redirect === undefined ? undefined : { redirect, ...headerFields([http.headers]), ...filters };
  }
  if (http.directResponse !== undefined) {
    const directResponse = directResponseAction(http.directResponse);
    return directResponse === undefined ? undefined : { directResponse, ...headerFields([http.headers]), ...filters };
  }
  const targets = weighted(http.route ?? []);
  if (targets.length === 0) return undefined;
  const [only, ...others] = targets;
  // A single destination is a plain cluster, so that its headers move to the route, after the route's own.
  const headers = others.length === 0 ? [http.headers, only?.destination.headers] : [http.headers];
  return { route: forwardAction(http, targets, context), ...headerFields(headers), ...filters };
}

const { CorsPolicy: CorsPolicyMessage } = envoy.extensions.filters.http.cors.v3;
const { HUNDRED } = envoy.type.v3.FractionalPercent.DenominatorType;

/** The cross-origin policy of a route, as configuration of the CORS filter for that route. */
function corsConfig(policy: CorsPolicy): google.protobuf.Any.Input {
  const { allowOrigins, allowMethods, allowHeaders, exposeHeaders, maxAge, allowCredentials } = policy;
  return packAny(CorsPolicyMessage, {
    allowOriginStringMatch: (allowOrigins ?? []).map(stringMatcher),
    filterEnabled: { defaultValue: { numerator: 100, denominator: HUNDRED } },
    ...(allowMethods === undefined ? {} : { allowMethods: allowMethods.join(',') }),
    ...(allowHeaders === undefined ? {} : { allowHeaders: allowHeaders.join(',') }),
    ...(exposeHeaders === undefined ? {} : { exposeHeaders: exposeHeaders.join(',') }),
    // A number of seconds, as in Access-Control-Max-Age.
    ...(maxAge === undefined ? {} : { maxAge: String(Math.trunc(maxAge / 1000)) }),
    ...(allowCredentials === undefined ? {} : { allowCredentials: { value: allowCredentials } }),
    ...unmatchedPreflights(policy.unmatchedPreflights),
  });
}

function unmatchedPreflights(
  mode: CorsPolicy['unmatchedPreflights'],
): Pick<envoy.extensions.filters.http.cors.v3.CorsPolicy.Input, 'forwardNotMatchingPreflights'> {
  if (mode !== 'FORWARD' && mode !== 'IGNORE') return {};
  return { forwardNotMatchingPreflights: { value: mode === 'FORWARD' } };
}

/** Settings for filters that are configured by route: only for filters that the proxy has. */
function perFilterConfig(http: HttpRoute, { features }: RouteContext): Pick<Route, 'typedPerFilterConfig'> {
  const cors = features.cors && http.corsPolicy !== undefined ? corsConfig(http.corsPolicy) : undefined;
  const fault = features.fault && http.fault !== undefined ? faultConfig(http.fault) : undefined;
  if (cors === undefined && fault === undefined) return {};
  return {
    typedPerFilterConfig: {
      ...(cors === undefined ? {} : { [CORS_FILTER]: cors }),
      ...(fault === undefined ? {} : { [FAULT_FILTER]: fault }),
    },
  };
}
