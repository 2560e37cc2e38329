/**
 * Outbound listeners of sidecars: one unit for each port, and one for the listener that takes all redirected
 * connections.
 */
import type { Protocol } from '../../model/index.ts';
import { envoy } from '../../protobuf/index.ts';
import {
  addressedScope,
  BLACKHOLE_CLUSTER,
  DNS_LISTENER_UNIT,
  VIRTUAL_LISTENER_UNIT,
  VIRTUAL_OUTBOUND_LISTENER,
  wildcardBinds,
} from '../common/index.ts';
import {
  sharedCapabilities,
  sniffs,
  tcpProxyChain,
  telemetryOf,
  thriftLimitProblems,
  unknownFilters,
  unknownTraffic,
} from '../filters/index.ts';
import type { ServicePortEntry } from '../indexes/index.ts';
import {
  type OutboundListenerPlan,
  type OutboundPortPlan,
  ownerOfRange,
  plannedPorts,
  portPlan,
} from '../listener-plans/index.ts';
import type { MeshReader, ScopeReader } from '../reads/index.ts';
import type { GeneratedResource, Unit, UnitOutput } from '../types.ts';
import type { OutboundView } from '../views.ts';
import { mergeChains } from './chain-merge.ts';
import { dnsListener } from './dns.ts';
import { connectionsOf, type L4Chain, l4Chains } from './l4-chains.ts';
import { assembled, type BuiltListener, detectedRanges, type Surroundings } from './listener-assembly.ts';
import { listenerAddresses, listenerResource, type NamedListener } from './listener-resource.ts';
import { plainListener, plainPort, portOutput } from './plain-listeners.ts';
import { podListeners } from './pod-listeners.ts';
import {
  besideWorkloads,
  foreignNamespaces,
  isSharedByAll,
  type WorkloadChains,
  workloadRangesOf,
} from './workload-chains.ts';

const { OUTBOUND } = envoy.config.core.v3.TrafficDirection;
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
  const output = plannedListeners(snapshot, view, scope, plan);
  const problems = thriftLimitProblems(snapshot, view, () => protocolsOf(plan));
  if (problems.length === 0) return output;
  const found = problems.map((message) => ({ metric: 'ctl_policy_problems', type: 'lds', unit, message }) as const);
  return { ...output, findings: [...output.findings, ...found] };
}

function* protocolsOf({ listeners, podTargets }: OutboundPortPlan): Generator<Protocol> {
  for (const { tcp } of listeners) for (const { protocol } of tcp) yield protocol;
  for (const { target } of podTargets) yield target.protocol;
}

function plannedListeners(
  snapshot: MeshReader,
  view: OutboundView,
  scope: ScopeReader,
  plan: OutboundPortPlan,
): UnitOutput {
  const plain = plainPort(snapshot, view, scope, plan);
  if (plain.output !== undefined) return plain.output;
  const context = { snapshot, view, scope, plan };
  const ofPods = podListeners(snapshot, view, plan, Number(plan.unit));
  const replaced = new Set(ofPods.map(({ bind }) => bind));
  const planned = plan.listeners.flatMap((listener, index) =>
    replaced.has(listener.bind) ? [] : (plain.listeners[index] ?? outboundListener(context, listener)),
  );
  return portOutput(plan, [...planned, ...ofPods.map((each) => outboundListener(context, each))]);
}

interface PortContext {
  readonly snapshot: MeshReader;
  readonly view: OutboundView;
  readonly scope: ScopeReader;
  readonly plan: OutboundPortPlan;
}

function outboundListener(context: PortContext, listener: OutboundListenerPlan): BuiltListener {
  const { snapshot, view, scope, plan } = context;
  const { mesh, settings, memos } = snapshot;
  const capabilities = sharedCapabilities(memos, view);
  const telemetry = telemetryOf(snapshot, view);
  const unknown = unknownTraffic(snapshot, view, scope, Number(plan.unit));
  const surroundings = { mesh, settings, capabilities, telemetry, unknown };
  const plain = plainListener(memos, listener, {
    surroundings,
    scope,
    routing: connectionsOf(scope, listener),
    isForeign: foreignNamespaces(snapshot, view.namespace),
    workloads: () => workloadRangesOf(snapshot, view),
    httpPods: plan.httpPods,
  });
  if (plain !== undefined) return plain;
  const l4 = listener.tcp.flatMap((target) => l4Chains({ snapshot, view, scope, listener, target }));
  const { chains, conflicts, httpRanges } = settledChains(l4, context, listener, surroundings);
  const merged = mergeChains(chains);
  return assembled(surroundings, listener, { ...merged, conflicts: [...conflicts, ...merged.conflicts] }, httpRanges);
}

/** The chains without the destinations that belong to HTTP services and to workloads. */
function settledChains(
  chains: readonly L4Chain[],
  { snapshot, view, scope, plan }: PortContext,
  listener: OutboundListenerPlan,
  surroundings: Surroundings,
): WorkloadChains {
  const { http, port, egress } = listener;
  const httpRanges = detectedRanges(listener);
  if (!isSharedByAll(listener)) return { chains, httpRanges, conflicts: [] };
  const entries = http === undefined ? [] : (scope.egress[egress]?.services.onPort(port) ?? []);
  const sniff = sniffs(snapshot.settings, 'sniffOutbound', view);
  const { free, conflicts } = withoutExcludedRanges(chains, entries, port, sniff);
  const beside = besideWorkloads(free, {
    port,
    workloads: () => workloadRangesOf(snapshot, view),
    isForeign: foreignNamespaces(snapshot, view.namespace),
    unknown: () => unknownFilters(surroundings.telemetry, surroundings, surroundings.unknown),
    httpPods: plan.httpPods,
    httpRanges,
  });
  return { ...beside, conflicts: [...conflicts, ...beside.conflicts] };
}

/**
 * Receives every redirected connection and passes it to the listener of its original destination. For a connection
 * without a listener, the outbound traffic policy applies. A connection to its own port was not redirected: passing it
 * through would loop forever.
 */
function virtualOutbound(snapshot: MeshReader, view: OutboundView, scope: ScopeReader): GeneratedResource {
  const port = snapshot.mesh.proxyListenPort;
  const telemetry = telemetryOf(snapshot, view);
  const proxying = { capabilities: view.capabilities, settings: snapshot.settings };
  const listener: NamedListener = {
    name: VIRTUAL_OUTBOUND_LISTENER,
    ...listenerAddresses(wildcardBinds(view), port),
    trafficDirection: OUTBOUND,
    useOriginalDst: { value: true },
    ...(view.interception === 'TPROXY' && { transparent: { value: true } }),
    filterChains: [
      tcpProxyChain(telemetry, BLACKHOLE_CLUSTER, {
        name: 'virtualOutbound-trafficloop',
        filterChainMatch: { destinationPort: { value: port } },
      }),
      {
        name: 'virtualOutbound-catchall-tcp',
        filters: unknownFilters(telemetry, proxying, unknownTraffic(snapshot, view, scope, 0)),
      },
    ],
  };
  return listenerResource(listener, []);
}

/**
 * Removes ranges of routes that contain virtual IPs of Kubernetes Services with HTTP ports, which no filter chain may
 * match.
 *
 * @param entries the services of the listener's port
 */
function withoutExcludedRanges(
  chains: readonly L4Chain[],
  entries: readonly ServicePortEntry[],
  port: number,
  sniff: boolean,
): { readonly free: readonly L4Chain[]; readonly conflicts: readonly string[] } {
  const conflicts: string[] = [];
  const free = chains.flatMap((chain) => {
    const ranges = chain.ranges.filter((range) => {
      const owner = ownerOfRange(range, entries, sniff);
      if (owner !== undefined)
        conflicts.push(`${chain.owner}: port ${port} of ${range} already serves HTTP of ${owner.hostname}`);
      return owner === undefined;
    });
    return ranges.length === 0 && chain.ranges.length > 0 ? [] : [{ ...chain, ranges }];
  });
  return { free, conflicts };
}
