/**
 * Outbound listeners of sidecars: one unit for each port, and one for the listener that takes all redirected
 * connections.
 */
import type { Memos } from '../../core/memo.ts';
import { compareText, type ModelSettings, type Scope } from '../../model/index.ts';
import { envoy } from '../../protobuf/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
import {
  addressedScope,
  BLACKHOLE_CLUSTER,
  cidrRanges,
  DNS_LISTENER_UNIT,
  hasFamilyOf,
  InputCache,
  isIpAddress,
  listenerName,
  VIRTUAL_LISTENER_UNIT,
  VIRTUAL_OUTBOUND_LISTENER,
  wildcardBinds,
} from '../common/index.ts';
import {
  type DestinationTraits,
  destinationTraits,
  type FilterChain,
  sharedCapabilities,
  sniffs,
  tcpProxyChain,
  unknownTrafficCluster,
} from '../filters/index.ts';
import {
  type HttpTarget,
  hasPodListeners,
  type OutboundListenerPlan,
  type OutboundPortPlan,
  plannedPorts,
  portPlan,
  type TcpTarget,
} from '../plans/index.ts';
import type { ConnectionRoutes, MeshReader, ScopeReader } from '../reads/index.ts';
import type { Capabilities, GeneratedResource, GenerationFinding, OutboundView, Unit, UnitOutput } from '../types.ts';
import { type MergedChains, mergeChains } from './chain-merge.ts';
import { dnsListener } from './dns.ts';
import { withoutExcludedRanges } from './excluded-ranges.ts';
import { outboundConnectionManager } from './http-connection-manager.ts';
import { connectionsOf, type L4Chain, l4Chains, serviceChains } from './l4-chains.ts';
import { besideSniffedHttp, detectionTimeout, httpInspector, SNIFFED_HTTP, tlsInspector } from './listener-filters.ts';
import { listenerAddresses, listenerResource, type NamedListener } from './listener-resource.ts';

const { OUTBOUND } = envoy.config.core.v3.TrafficDirection;
/**
 * Clients of HTTP services may connect long before their first request (connection pools do). Silence does not mean
 * another protocol: a request taken for TCP would bypass routes, policies of the client side and mutual TLS.
 */
const NO_TIMEOUT = 0;
const NOTHING: UnitOutput = { resources: [], findings: [] };

export function outboundListenerUnits(snapshot: MeshReader, view: OutboundView): readonly Unit[] {
  if (addressedScope(snapshot, view) === undefined) return [];
  const ports = plannedPorts(snapshot, view);
  const units = view.interception === 'NONE' ? ports : [...ports, VIRTUAL_LISTENER_UNIT];
  return view.dns?.listener === true ? [...units, DNS_LISTENER_UNIT] : units;
}

export function outboundListeners(snapshot: MeshReader, view: OutboundView, unit: Unit): UnitOutput {
  const scope = addressedScope(snapshot, view);
  if (scope === undefined) return NOTHING;
  if (unit === DNS_LISTENER_UNIT) return dnsListener(snapshot, view, scope);
  if (unit === VIRTUAL_LISTENER_UNIT) {
    return view.interception === 'NONE'
      ? NOTHING
      : { resources: [virtualOutbound(snapshot, view, scope)], findings: [] };
  }
  const plan = portPlan(snapshot, view, unit);
  if (plan === undefined) return NOTHING;
  const shared = plainPort(snapshot, view, scope, plan);
  if (shared?.output !== undefined) return shared.output;
  const planned = plan.listeners.map(
    (listener, index) => shared?.listeners[index] ?? outboundListener(snapshot, view, scope, listener),
  );
  const ofPods = podListeners(snapshot, view, plan, Number(unit));
  return portOutput(plan, [...planned, ...ofPods.map((each) => outboundListener(snapshot, view, scope, each))]);
}

function portOutput({ unit, conflicts }: OutboundPortPlan, listeners: readonly BuiltListener[]): UnitOutput {
  const findings: GenerationFinding[] = conflicts.map((conflict) => ({ type: 'lds', unit, ...conflict }));
  const resources: GeneratedResource[] = [];
  for (const { resource, conflicts: lost } of listeners) {
    if (resource !== undefined) resources.push(resource);
    for (const message of lost) {
      findings.push({ metric: 'ctl_conflict_outbound_listener_tcp_over_current_tcp', type: 'lds', unit, message });
    }
  }
  return { resources, findings };
}

/**
 * Pods of headless services are known by their own addresses: each gets its listener, unless a service has the address.
 * Of several services with the same pod, those of its own namespace come first: routes and settings of other namespaces
 * do not apply to connections to it.
 */
function podListeners(
  snapshot: MeshReader,
  view: OutboundView,
  plan: OutboundPortPlan,
  port: number,
): OutboundListenerPlan[] {
  if (plan.podTargets.length === 0) return [];
  /** `own`: how many of the targets are of the pod's namespace. */
  const byAddress = new Map<string, OutboundListenerPlan & { readonly own: number }>();
  const taken = new Set(plan.listeners.map(({ bind }) => bind));
  for (const { target, egress } of plan.podTargets) {
    const servicePort = target.service.ports.find((candidate) => candidate.port === target.port);
    for (const { address, servicePort: name, workload } of snapshot.carriedEndpoints.get(target.service.key) ?? []) {
      if (name !== servicePort?.name || !isIpAddress(address) || taken.has(address)) continue;
      if (!hasFamilyOf(view, address)) continue;
      const known = byAddress.get(address);
      if (known?.tcp.includes(target)) continue;
      const isOwn = workload?.namespace === target.service.namespace;
      const own = (known?.own ?? 0) + (isOwn ? 1 : 0);
      const tcp = (known?.tcp ?? []).toSpliced(isOwn ? own - 1 : (known?.tcp.length ?? 0), 0, target);
      byAddress.set(address, {
        own,
        bind: address,
        extraBind: undefined,
        port,
        bindToPort: false,
        http: undefined,
        tcp,
        egress,
      });
    }
  }
  return [...byAddress.values()].sort((a, b) => compareText(a.bind, b.bind));
}

interface BuiltListener {
  /** Absent when there is no destination. */
  readonly resource: GeneratedResource | undefined;
  readonly conflicts: readonly string[];
}

/** The inputs of the listener of one service's port without virtual services for its connections. */
interface PlainInputs extends Omit<TcpTarget, 'port'>, DestinationTraits {
  readonly mesh: MeshConfig;
  readonly settings: ModelSettings;
  readonly capabilities: Capabilities;
  readonly outboundTrafficPolicy: Scope['outboundTrafficPolicy'];
  readonly bind: string;
  readonly extraBind: string | undefined;
  readonly port: number;
  readonly bindToPort: boolean;
  readonly targetPort: number | undefined;
  /** Route configuration of requests, where HTTP is detected; '' without detection. */
  readonly routeName: string;
  readonly grpcWeb: boolean;
}

const plainListeners = new InputCache<PlainInputs, BuiltListener>('plain listeners', (inputs) => {
  const target = { ...inputs, port: inputs.targetPort };
  const merged = mergeChains(serviceChains(inputs, target, inputs));
  const http = inputs.routeName === '' ? undefined : inputs;
  return assembled(inputs, { ...inputs, http, tcp: [target] }, merged);
});

/** The listener of a plan where it is a plain one. */
function plainListener(
  memos: Memos,
  { plan, surroundings, scope }: { plan: OutboundListenerPlan; surroundings: Surroundings; scope: RuleScope },
  routing: ConnectionRoutes,
): BuiltListener | undefined {
  const { bind, extraBind, port, bindToPort, http, tcp } = plan;
  const target = tcp.length === 1 ? tcp[0] : undefined;
  if (target === undefined || routing.for(target.service.hostname, plan.port).length > 0) return undefined;
  const { routeName = '', grpcWeb = false } = http ?? {};
  const { service, port: targetPort, protocol, range, shared } = target;
  const traits = destinationTraits(scope, service.hostname, '', targetPort ?? 0, {
    at: port,
    sds: surroundings.capabilities.sds,
  });
  const tcpInputs = { service, targetPort, protocol, range, shared };
  const inputs = { ...surroundings, ...traits, bind, extraBind, port, bindToPort, ...tcpInputs, routeName, grpcWeb };
  return plainListeners.get(memos, service, inputs);
}

type RuleScope = Pick<ScopeReader, 'services' | 'rules'>;

/** The inputs of the plain listeners of a port. */
interface PortInputs extends Surroundings, RuleScope {
  readonly plan: OutboundPortPlan;
  /** The virtual services that route connections. */
  readonly routing: ConnectionRoutes;
}

interface PlainPort {
  /** In the order of the plan; undefined: not a plain one. */
  readonly listeners: readonly (BuiltListener | undefined)[];
  /** Set when there are no other listeners. */
  readonly output: UnitOutput | undefined;
}

/** Ports may have thousands of listeners: namespaces that see them alike do not even have to compare their parts. */
const plainPorts = new InputCache<PortInputs, PlainPort>('plain ports', ({ plan, routing, ...rest }, memos) => {
  const { mesh, settings, capabilities, outboundTrafficPolicy, services, rules } = rest;
  const surroundings = { mesh, settings, capabilities, outboundTrafficPolicy };
  const scope = { services, rules };
  const listeners = plan.listeners.map((each) => plainListener(memos, { plan: each, surroundings, scope }, routing));
  const plain = listeners.filter((listener) => listener !== undefined);
  const complete = plain.length === plan.listeners.length && plan.podTargets.length === 0;
  return { listeners, output: complete ? portOutput(plan, plain) : undefined };
});

/** Undefined where a Sidecar has several egress listeners, which is rarely shared. */
function plainPort(
  { mesh, settings, memos }: MeshReader,
  view: OutboundView,
  { egress, services, rules, outboundTrafficPolicy }: ScopeReader,
  plan: OutboundPortPlan,
): PlainPort | undefined {
  const [only, ...others] = egress;
  if (only === undefined || others.length > 0) return undefined;
  const routing = only.virtualServices.connections;
  const capabilities = sharedCapabilities(memos, view);
  return plainPorts.get(memos, plan, {
    mesh,
    settings,
    capabilities,
    outboundTrafficPolicy,
    services,
    rules,
    plan,
    routing,
  });
}

function outboundListener(
  snapshot: MeshReader,
  view: OutboundView,
  scope: ScopeReader,
  plan: OutboundListenerPlan,
): BuiltListener {
  const { mesh, settings } = snapshot;
  const { outboundTrafficPolicy } = scope;
  const routing = connectionsOf(scope, plan);
  const surroundings = {
    mesh,
    settings,
    capabilities: sharedCapabilities(snapshot.memos, view),
    outboundTrafficPolicy,
  };
  const plain = plainListener(snapshot.memos, { plan, surroundings, scope }, routing);
  if (plain !== undefined) return plain;
  const l4: L4Chain[] = plan.tcp.flatMap((each) => l4Chains({ snapshot, view, scope, listener: plan, target: each }));
  const { free, conflicts } = withoutExcludedRanges(l4, scope, plan, {
    sniff: sniffs(settings, 'sniffOutbound', view),
    podListeners: hasPodListeners(settings),
  });
  const merged = mergeChains(free);
  return assembled(surroundings, plan, { ...merged, conflicts: [...conflicts, ...merged.conflicts] });
}

/** The inputs of the parts of a listener that are not about one service. */
type Surroundings = Pick<PlainInputs, 'mesh' | 'settings' | 'capabilities' | 'outboundTrafficPolicy'>;

/** The properties of a listener that do not depend on its position in a scope. */
type ListenerShape = Omit<OutboundListenerPlan, 'egress'>;

function assembled(
  surroundings: Surroundings,
  shape: ListenerShape,
  { chains, conflicts, takesAll, matchesServerNames }: MergedChains,
): BuiltListener {
  const { bind, extraBind, port, bindToPort, http } = shape;
  if (http === undefined && chains.length === 0) return { resource: undefined, conflicts };
  // Where all services are HTTP, other traffic is for none of them. A bound socket has no other destination to pass it
  // to.
  const httpAlone = http !== undefined && chains.length === 0;
  const sniffed =
    http !== undefined && (!httpAlone || (!bindToPort && sniffs(surroundings.settings, 'sniffOutbound', surroundings)));
  const filterChains: FilterChain[] = sniffed ? chains.flatMap(besideSniffedHttp) : [...chains];
  if (http !== undefined) filterChains.push(...httpChains(surroundings, shape, http, sniffed));
  const matchesAll = takesAll || (http !== undefined && !sniffed);
  const inspected = sniffed || matchesServerNames;
  const unknown = unknownTrafficCluster(surroundings.outboundTrafficPolicy);
  const listener: NamedListener = {
    name: listenerName(bind, port),
    ...listenerAddresses({ bind, extraBind }, port),
    trafficDirection: OUTBOUND,
    filterChains,
    // Not for a bound socket, which is the destination of its connections itself.
    ...(!matchesAll && !bindToPort && { defaultFilterChain: tcpProxyChain(surroundings, surroundings, unknown) }),
    ...(!bindToPort && { bindToPort: { value: false } }),
    ...(inspected && {
      listenerFilters: [...tlsInspector(surroundings), ...(sniffed ? httpInspector(surroundings) : [])],
      ...detectionTimeout(httpAlone ? NO_TIMEOUT : surroundings.mesh.protocolDetectionTimeout),
    }),
  };
  return { resource: listenerResource(listener, http === undefined ? [] : [http.routeName]), conflicts };
}

function httpChains(
  surroundings: Surroundings,
  { bind, port, tcp }: ListenerShape,
  { routeName, grpcWeb }: HttpTarget,
  sniffed: boolean,
): FilterChain[] {
  const filter = outboundConnectionManager(surroundings, {
    statPrefix: `outbound_${listenerName(bind, port)}`,
    routes: { rds: routeName },
    // Off: Envoy trusts the application in the same pod, which may set timeouts and retries by headers.
    useRemoteAddress: surroundings.settings.sidecarUseRemoteAddress,
    grpcWeb,
  });
  if (!sniffed) return [{ filters: [filter] }];
  const chain: FilterChain = { filterChainMatch: SNIFFED_HTTP, filters: [filter] };
  // Envoy chooses by destination first and never goes back: services with a range need a chain for it.
  const ranges = tcp.flatMap(({ protocol, range }) =>
    protocol === 'Unsupported' && range !== undefined ? [range] : [],
  );
  const prefixRanges = cidrRanges(ranges);
  return prefixRanges.length === 0
    ? [chain]
    : [chain, { filterChainMatch: { ...SNIFFED_HTTP, prefixRanges }, filters: [filter] }];
}

/**
 * Takes every redirected connection and hands it to the listener of its original destination. A connection without
 * listener is handled by the outbound traffic policy. A connection to its own port was not redirected: passing it
 * through would loop forever.
 */
function virtualOutbound(snapshot: MeshReader, view: OutboundView, scope: ScopeReader): GeneratedResource {
  const port = snapshot.mesh.proxyListenPort;
  const listener: NamedListener = {
    name: VIRTUAL_OUTBOUND_LISTENER,
    ...listenerAddresses(wildcardBinds(view), port),
    trafficDirection: OUTBOUND,
    useOriginalDst: { value: true },
    ...(view.interception === 'TPROXY' && { transparent: { value: true } }),
    filterChains: [
      tcpProxyChain(snapshot, view, BLACKHOLE_CLUSTER, {
        name: 'virtualOutbound-trafficloop',
        filterChainMatch: { destinationPort: { value: port } },
      }),
      tcpProxyChain(snapshot, view, unknownTrafficCluster(scope.outboundTrafficPolicy), {
        name: 'virtualOutbound-catchall-tcp',
      }),
    ],
  };
  return listenerResource(listener, []);
}
