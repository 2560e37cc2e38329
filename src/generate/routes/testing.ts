/** Fixtures that the tests of routes and gateways share. */
import type { ResolvedVirtualService, Service, ServicePort } from '../../model/types.ts';
import { type ContentOf, SCHEMAS } from '../../resources/schemas.ts';
import { resourceKey } from '../../resources/types.ts';
import type { RouteContext, RouteLookups } from './context.ts';
import { virtualServiceRoutes } from './http-route.ts';
import type { Route } from './messages.ts';

export const NO_LOOKUPS: RouteLookups = {
  onlyPort: () => undefined,
  consistentHash: () => undefined,
  isFrom: () => false,
  hasLabels: () => false,
};

export const ALL_FEATURES = { cors: true, fault: true, previousHosts: true, previousPriorities: true };

export function contextOf(changes: Partial<RouteContext> = {}): RouteContext {
  return {
    gateway: 'mesh',
    port: 9080,
    defaultTimeoutMs: 0,
    features: ALL_FEATURES,
    lookups: NO_LOOKUPS,
    ...changes,
  };
}

/** A virtual service as users write its spec; hosts and destinations have to be full names. */
export function virtualServiceOf(
  spec: unknown,
  { name = 'vs', namespace = 'default' }: { readonly name?: string; readonly namespace?: string } = {},
): ResolvedVirtualService {
  const content: ContentOf<'VirtualService'> = SCHEMAS.VirtualService.parse(spec);
  return {
    key: resourceKey('VirtualService', namespace, name),
    namespace,
    name,
    hosts: content.hosts ?? [],
    gateways: content.gateways ?? ['mesh'],
    content,
    created: undefined,
  };
}

/** The routes that a list of `http` entries makes. */
export function routesOf(http: readonly unknown[], changes: Partial<RouteContext> = {}): Route[] {
  return virtualServiceRoutes(virtualServiceOf({ hosts: [REVIEWS], http }), contextOf(changes));
}

/** The only route of a single `http` entry, for the tests of one feature. */
export function routeOf(http: unknown, changes: Partial<RouteContext> = {}): Route {
  const [route, ...others] = routesOf([http], changes);
  if (route === undefined || others.length > 0) throw new Error('expected exactly one route');
  return route;
}

export const REVIEWS = 'reviews.default.svc.cluster.local';
export const TO_REVIEWS = [{ destination: { host: REVIEWS } }];

export function serviceOf(name: string, ports: readonly ServicePort[], changes: Partial<Service> = {}): Service {
  const hostname = `${name}.default.svc.cluster.local`;
  return {
    key: `default/${hostname}`,
    hostname,
    namespace: 'default',
    ports,
    addresses: [],
    resolution: 'eds',
    headless: false,
    meshExternal: false,
    exportTo: ['*'],
    labels: {},
    subjectAltNames: [],
    registry: 'Orchestrator',
    shortName: name,
    source: resourceKey('Service', 'default', name),
    created: undefined,
    ...changes,
  };
}

export function httpPort(port: number): ServicePort {
  return { name: `http-${port}`, port, protocol: 'HTTP' };
}
