/** The routes of one host: those of all Ingresses that name it, the most specific path first. */
import { isDnsSubdomain } from '../../core/dns-names.ts';
import {
  derivedRouteProblem,
  type HttpMatch,
  type HttpRoute,
  type IngressBackend,
  type IngressPath,
  type Resource,
} from '../../resources/index.ts';

/** The host of rules without a host. */
export const ANY_HOST = '*';

/** The port number for the name of a Service's port; undefined if there is none. */
export type NamedPort = (namespace: string, service: string, port: string) => number | undefined;

export interface RouteInputs {
  readonly domain: string;
  readonly namedPort: NamedPort;
}

/** A path of an Ingress, with the properties that determine its order. */
interface Candidate {
  readonly exact: boolean;
  readonly length: number;
  readonly match: HttpMatch | undefined;
  readonly action: HttpRoute;
}

/**
 * The routes of a host.
 * @param ingresses those that name it, oldest first
 */
export function hostRoutes(host: string, ingresses: readonly Resource<'Ingress'>[], inputs: RouteInputs): HttpRoute[] {
  const candidates = ingresses.flatMap((ingress) => pathsOf(host, ingress, inputs));
  // The sort is stable: of equal paths, that of the oldest Ingress takes precedence.
  candidates.sort((a, b) => Number(b.exact) - Number(a.exact) || b.length - a.length);
  return candidates.flatMap(({ match, action }) => {
    // With a path that Envoy refuses, such as one with a query, it would refuse all routes of the gateway.
    if (derivedRouteProblem(withHost(host, match, UNAVAILABLE)) !== undefined) return [];
    const route = withHost(host, match, action);
    // If Envoy would refuse the backend of a path, its requests must not reach the backend of a shorter path.
    return [derivedRouteProblem(route) === undefined ? route : withHost(host, match, UNAVAILABLE)];
  });
}

/** A route with the match of a path, to validate only the match. */
export function matchingRoute(path: IngressPath): HttpRoute {
  return withHost(ANY_HOST, pathMatch(path).match, UNAVAILABLE);
}

function pathsOf(host: string, ingress: Resource<'Ingress'>, inputs: RouteInputs): Candidate[] {
  const { rules, defaultBackend } = ingress.content;
  const own = (rules ?? []).filter((rule) => hostNames([rule.host])[0] === host);
  const paths = own.flatMap(({ http }) => http?.paths ?? []);
  const candidates = paths.map((path) => ({
    ...pathMatch(path),
    action: actionFor(path.backend, ingress.meta.namespace, inputs),
  }));
  if (defaultBackend === undefined) return candidates;
  const action = actionFor(defaultBackend, ingress.meta.namespace, inputs);
  return [...candidates, { exact: false, length: 0, match: undefined, action }];
}

/** A DNS name, or one with `*` for its first label. */
function isHost(host: string): boolean {
  return isDnsSubdomain(host.startsWith('*.') ? host.slice(2) : host);
}

/** Hosts as names of virtual hosts, without invalid ones. An absent or empty host means any host. */
export function hostNames(hosts: readonly (string | undefined)[]): string[] {
  return hosts.map((host) => host?.toLowerCase() || ANY_HOST).filter((host) => host === ANY_HOST || isHost(host));
}

/**
 * Prefixes match whole path elements, and a `/` at their end does not count (Kubernetes documentation, "Path types").
 * With the type ImplementationSpecific, `/a/*` is such a prefix, `/a.*` is a string prefix, and anything else is an
 * exact path.
 */
function pathMatch({ path = '', pathType }: IngressPath): Omit<Candidate, 'action'> {
  if (pathType === 'Exact') return { exact: true, length: path.length, match: { uri: { exact: path } } };
  if (pathType === 'Prefix') return elements(path);
  if (path === '' || path === '/') return elements('');
  if (path.endsWith('/*')) return elements(path.slice(0, -2));
  if (!path.endsWith('.*')) return { exact: true, length: path.length, match: { uri: { exact: path } } };
  const prefix = path.slice(0, -2);
  return { exact: false, length: prefix.length, match: { uri: { prefix } } };
}

function elements(path: string): Omit<Candidate, 'action'> {
  const prefix = path.replace(/\/+$/, '');
  return { exact: false, length: prefix.length + 1, match: prefix === '' ? undefined : { pathPrefix: prefix } };
}

/** Requests for an unknown port name receive HTTP 503, as for a Service without endpoints. */
const UNAVAILABLE: HttpRoute = { directResponse: { status: 503 } };

function actionFor({ service }: IngressBackend, namespace: string, { domain, namedPort }: RouteInputs): HttpRoute {
  const { name: port, number } = service?.port ?? {};
  const found = service && (number ?? (port === undefined ? undefined : namedPort(namespace, service.name, port)));
  if (service === undefined || found === undefined) return UNAVAILABLE;
  const destination = { host: `${service.name}.${namespace}.svc.${domain}`, port: { number: found } };
  return { route: [{ destination }] };
}

/** The wildcard of an Ingress stands for one label; that of a virtual host for any number of them. */
function withHost(host: string, match: HttpMatch | undefined, action: HttpRoute): HttpRoute {
  const authority = host.startsWith('*.') ? { authority: { regex: oneLabelAbove(host.slice(2)) } } : {};
  const conditions = { ...match, ...authority };
  return Object.keys(conditions).length === 0 ? action : { ...action, match: [conditions] };
}

function oneLabelAbove(domain: string): string {
  return `(?i)[^.:]+\\.${domain.replaceAll('.', '\\.')}(:[0-9]+)?`;
}
