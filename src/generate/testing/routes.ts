/** Fixtures shared by the tests of routes and gateways. */

import { Memos } from '../../core/memo.ts';
import { PMap } from '../../core/pmap.ts';
import { DEFAULT_SETTINGS } from '../../model/testing/settings.ts';
import type {
  ConfigKind,
  MergedDestinationRule,
  MeshSnapshot,
  ResolvedVirtualService,
  Scope,
  Service,
  ServicePort,
} from '../../model/types/types.ts';
import { type ContentOf, SCHEMAS } from '../../resources/kinds/schemas.ts';
import { type Kind, keyOf, type Resource, resourceKey } from '../../resources/kinds/types.ts';
import { defaultMeshConfig, defaultMeshNetworks } from '../../resources/mesh-config.ts';
import type { RouteContext, RouteLookups } from '../routes/context.ts';
import { virtualServiceRoutes } from '../routes/http-route.ts';
import type { Route } from '../routes/messages.ts';

export const NO_LOOKUPS: RouteLookups = {
  onlyPort: () => undefined,
  consistentHash: () => undefined,
  isFrom: () => false,
  hasLabels: () => false,
};

export const ALL_FEATURES = { cors: true, fault: true, previousHosts: true, previousPriorities: true, traced: false };

const MEMOS = new Memos();

export function contextOf(changes: Partial<RouteContext> = {}): RouteContext {
  return {
    memos: MEMOS,
    gateway: 'mesh',
    port: 9080,
    defaultTimeoutMs: 0,
    features: ALL_FEATURES,
    lookups: NO_LOOKUPS,
    ...changes,
  };
}

/** A virtual service from its spec; hosts and destinations must be full names. */
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

/** The routes of a list of `http` entries. */
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

/** A gateway from its spec. */
export function gatewayOf(
  spec: unknown,
  { name = 'gw', namespace = 'edge' }: { readonly name?: string; readonly namespace?: string } = {},
): Resource<'Gateway'> {
  return {
    kind: 'Gateway',
    meta: { name, namespace, labels: {}, annotations: {} },
    content: SCHEMAS.Gateway.parse(spec),
    origin: { source: 'test' },
    fingerprint: '',
  };
}

export interface TestWorld {
  readonly services?: readonly Service[];
  /** For sidecars those of gateway `mesh`, for gateways those that name them. */
  readonly virtualServices?: readonly ResolvedVirtualService[];
  readonly gateways?: readonly Resource<'Gateway'>[];
  readonly secrets?: readonly Resource<'Secret'>[];
  readonly destinationRules?: readonly MergedDestinationRule[];
  readonly outboundTrafficPolicy?: Scope['outboundTrafficPolicy'];
}

/** One scope `default/` that sees everything, in a snapshot that has what routes and gateways read. */
export function snapshotOf(world: TestWorld): MeshSnapshot {
  const services = PMap.from((world.services ?? []).map((service) => [service.hostname, service] as const));
  const virtualServices = world.virtualServices ?? [];
  const bound = (gateway: string) => virtualServices.filter(({ gateways }) => gateways.includes(gateway));
  const rules = new Map((world.destinationRules ?? []).map((rule) => [rule.host, rule]));
  const scope: Scope = {
    id: 'default/',
    namespace: 'default',
    sidecar: undefined,
    egress: [{ port: undefined, bind: '', captureMode: 'DEFAULT', services, virtualServices: bound('mesh') }],
    services,
    ingress: undefined,
    outboundTrafficPolicy: world.outboundTrafficPolicy ?? 'ALLOW_ANY',
    destinationRule: (host) => rules.get(host),
  };
  const gateways = PMap.from((world.gateways ?? []).map((gateway) => [keyOf(gateway), gateway] as const));
  const secrets = PMap.from((world.secrets ?? []).map((secret) => [keyOf(secret), secret] as const));
  return {
    version: 1,
    settings: DEFAULT_SETTINGS,
    mesh: defaultMeshConfig(),
    networks: defaultMeshNetworks(),
    workloadRanges: [],
    networkGateways: new Map(),
    services: PMap.from((world.services ?? []).map((service) => [service.key, service] as const)),
    memos: new Memos(),
    carriedEndpoints: PMap.empty(),
    peers: PMap.empty(),
    scopeById: (id) => (id === scope.id ? scope : undefined),
    virtualServicesOfGateway: bound,
    rootsOf: () => [],
    gatewayScope: () => scope,
    resources: <K extends ConfigKind>(kind: K) => {
      const known: Partial<Record<Kind, PMap<Resource>>> = { Gateway: gateways, Secret: secrets };
      return (known[kind] ?? PMap.empty<never>()) as PMap<Resource<K>>;
    },
  };
}
