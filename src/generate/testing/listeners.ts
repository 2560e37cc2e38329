/** Fixtures of the listener tests: views, and what a view's units decode to. */

import { PMap } from '../../core/pmap.ts';
import type {
  EgressListener,
  Endpoint,
  MeshSnapshot,
  ModelSettings,
  Protocol,
  Scope,
  Service,
} from '../../model/types/types.ts';
import { envoy } from '../../protobuf/index.ts';
import type { MeshConfig } from '../../resources/mesh-config.ts';
import { inboundListeners, inboundListenerUnits } from '../listeners/inbound.ts';
import { outboundListeners, outboundListenerUnits } from '../listeners/outbound.ts';
import { MeshReader } from '../reads/index.ts';
import type { GeneratedResource, UnitOutput } from '../types.ts';
import type { InboundView, OutboundView } from '../views.ts';
import { serviceOf, snapshotOf, type TestWorld } from './routes.ts';
import { outboundView } from './views.ts';

export interface World extends TestWorld {
  readonly settings?: Partial<ModelSettings>;
  readonly mesh?: Partial<MeshConfig>;
  /** Addresses of the endpoints of a service's first port. */
  readonly endpoints?: readonly (readonly [service: Service, addresses: readonly string[]])[];
  /** Egress listeners as in a Sidecar; absent fields are as in a scope without Sidecar. */
  readonly egress?: readonly Partial<EgressListener>[];
  readonly ingress?: Scope['ingress'];
}

/** A mesh as one snapshot with the scope `default/`. */
export function worldOf({ settings, mesh, endpoints, egress, ingress, ...world }: World): MeshSnapshot {
  const snapshot = snapshotOf(world);
  const base = snapshot.gatewayScope('default');
  const [everything] = base.egress;
  if (everything === undefined) throw new Error('the fixture has no egress listener');
  const scope: Scope = {
    ...base,
    ingress,
    egress: egress?.map((listener) => ({ ...everything, ...listener })) ?? base.egress,
  };
  return {
    ...snapshot,
    settings: { ...snapshot.settings, ...settings },
    mesh: { ...snapshot.mesh, ...mesh },
    carriedEndpoints: PMap.from(
      (endpoints ?? []).map(([service, addresses]) => [service.key, endpointsOf(service, addresses)]),
    ),
    scopeById: (id) => (id === scope.id ? scope : undefined),
  };
}

function endpointsOf({ ports }: Service, addresses: readonly string[]): Endpoint[] {
  return addresses.map((address) => ({
    address,
    port: ports[0]?.port ?? 0,
    servicePort: ports[0]?.name ?? '',
    labels: {},
    locality: '',
    network: '',
    weight: undefined,
    serviceAccount: '',
    health: 'healthy',
    workload: undefined,
    hostname: '',
    tlsReady: false,
  }));
}

/** A service of one port. */
export function oneService(
  name: string,
  protocol: Protocol,
  port: number,
  addresses: readonly string[] = [],
  changes: Partial<Service> = {},
): Service {
  return serviceOf(name, [{ name: 'port', port, protocol }], { addresses, ...changes });
}

export function inboundView(changes: Partial<InboundView> = {}): InboundView {
  return {
    part: 'inbound',
    scope: 'default/',
    namespace: 'default',
    interception: 'REDIRECT',
    families: 'ipv4',
    ports: [],
    peerAuthentication: { mode: 'PERMISSIVE', ports: {} },
    policies: { authentication: [], authorization: [] },
    addresses: [],
    capabilities: { extensions: undefined, sds: false },
    ...changes,
  };
}

export function decodeListener({ bytes }: GeneratedResource) {
  return envoy.config.listener.v3.Listener.decode(bytes);
}

function listenersOf(outputs: readonly UnitOutput[]) {
  const resources = outputs.flatMap((output) => output.resources);
  return {
    resources: new Map(resources.map((resource) => [resource.name, resource])),
    listeners: new Map(resources.map((resource) => [resource.name, decodeListener(resource)])),
    findings: outputs.flatMap(({ findings }) => findings),
  };
}

/** All outbound listeners of a view, by name. */
export function outboundOf(snapshot: MeshSnapshot, view: OutboundView = outboundView()) {
  return listenersOf(
    outboundListenerUnits(MeshReader.of(snapshot), view).map((unit) =>
      outboundListeners(MeshReader.of(snapshot), view, unit),
    ),
  );
}

/** All inbound listeners of a view, by name. */
export function inboundOf(snapshot: MeshSnapshot, view: InboundView = inboundView()) {
  return listenersOf(
    inboundListenerUnits(MeshReader.of(snapshot), view).map((unit) =>
      inboundListeners(MeshReader.of(snapshot), view, unit),
    ),
  );
}

type Listener = ReturnType<typeof decodeListener>;
type Chain = Listener['filterChains'][number];

/** A filter chain in one line: its destination, or its route configuration, and its match. */
export function chainText({ filterChainMatch: match, filters }: Chain): string {
  const conditions = [
    match?.destinationPort === undefined || match.destinationPort === null ? '' : `port ${match.destinationPort.value}`,
    ...(match?.prefixRanges ?? []).map((range) => `${range.addressPrefix}/${range.prefixLen?.value ?? 0}`),
    ...(match?.serverNames ?? []),
    (match?.applicationProtocols ?? []).length > 0 ? 'is HTTP' : match?.transportProtocol ? 'is plain' : '',
  ].filter((text) => text !== '');
  return `${targetOf(filters[0])}${conditions.length === 0 ? '' : ` if ${conditions.join(' ')}`}`;
}

function targetOf(filter: Chain['filters'][number] | undefined): string {
  const { network } = envoy.extensions.filters;
  const bytes = filter?.typedConfig?.value ?? new Uint8Array();
  if (filter?.name === 'envoy.filters.network.http_connection_manager') {
    const manager = network.http_connection_manager.v3.HttpConnectionManager.decode(bytes);
    return `routes ${manager.rds?.routeConfigName ?? manager.routeConfig?.name}`;
  }
  const proxy = network.tcp_proxy.v3.TcpProxy.decode(bytes);
  const weights = proxy.weightedClusters?.clusters.map(({ name, weight }) => `${name} ${weight}`);
  return weights?.join(', ') ?? proxy.cluster ?? '';
}

/** The chains of a listener; the default chain last, as `else …`. */
export function chainTexts(listener: Listener | undefined): string[] {
  if (listener === undefined) return ['no listener'];
  const last = listener.defaultFilterChain;
  const texts = listener.filterChains.map(chainText);
  return last === null ? texts : [...texts, `else ${chainText(last)}`];
}

/** The filter chains of the outbound listener `name`, as {@link chainTexts} writes them. */
export function chainsOf(world: World, name: string, view = outboundView()): string[] {
  return chainTexts(outboundOf(worldOf(world), view).listeners.get(name));
}
