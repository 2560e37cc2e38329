/**
 * Plain listeners: listeners of one service's port without virtual services for its connections. Most listeners are
 * plain, and many namespaces have the same ones, so they are cached by their inputs.
 */
import type { Memos } from '../../core/memo.ts';
import { InputCache } from '../common/index.ts';
import {
  type DestinationTraits,
  destinationTraits,
  sharedCapabilities,
  telemetryOf,
  unknownFilters,
  unknownTraffic,
} from '../filters/index.ts';
import type { OutboundListenerPlan, OutboundPortPlan, TcpTarget } from '../listener-plans/index.ts';
import type { ConnectionRoutes, MeshReader, ScopeReader } from '../reads/index.ts';
import type { GeneratedResource, GenerationFinding, UnitOutput } from '../types.ts';
import type { OutboundView } from '../views.ts';
import { mergeChains } from './chain-merge.ts';
import { serviceChains } from './l4-chains.ts';
import { assembled, type BuiltListener, detectedRanges, type Surroundings } from './listener-assembly.ts';
import { besideWorkloads, foreignNamespaces, isSharedByAll, workloadRangesOf } from './workload-chains.ts';

interface PlainInputs extends Surroundings, Omit<TcpTarget, 'port' | 'resolves'>, DestinationTraits {
  readonly resolves: TcpTarget['resolves'] | undefined;
  readonly bind: string;
  readonly extraBind: string | undefined;
  readonly port: number;
  readonly bindToPort: boolean;
  readonly targetPort: number | undefined;
  /** Route configuration of requests, if HTTP is detected; '' without detection. */
  readonly routeName: string;
  readonly grpcWeb: boolean;
  readonly dynamicPort: number | undefined;
  /**
   * Whether the service is in another namespace than the callers, and may therefore not apply to all of their
   * connections.
   */
  readonly foreign: boolean;
  /** The ranges of workloads; empty if the service does not share the listener with them. */
  readonly workloads: readonly string[];
  readonly httpPods: ReadonlySet<string>;
}

const plainListeners = new InputCache<PlainInputs, BuiltListener>('plain listeners', (inputs) => {
  const { port, foreign, workloads, httpPods } = inputs;
  const { resolves, dynamicPort, ...rest } = inputs;
  const target = { ...rest, port: inputs.targetPort, ...(resolves !== undefined && { resolves }) };
  const named = { routeName: inputs.routeName, grpcWeb: inputs.grpcWeb };
  const http = inputs.routeName === '' ? undefined : { ...named, ...(dynamicPort !== undefined && { dynamicPort }) };
  const shape = { ...inputs, http, undeclared: false, tcp: [target] };
  const { chains, conflicts, httpRanges } = besideWorkloads(serviceChains(inputs, target, inputs), {
    port,
    workloads: () => workloads,
    isForeign: () => foreign,
    unknown: () => unknownFilters(inputs.telemetry, inputs, inputs.unknown),
    httpPods,
    httpRanges: detectedRanges(shape),
  });
  const merged = mergeChains(chains);
  return assembled(inputs, shape, { ...merged, conflicts: [...conflicts, ...merged.conflicts] }, httpRanges);
});

type RuleScope = Pick<ScopeReader, 'services' | 'rules'>;

/** The inputs of the plain listeners of a port in addition to their plan. */
export interface PlainContext {
  readonly surroundings: Surroundings;
  readonly scope: RuleScope;
  readonly routing: ConnectionRoutes;
  readonly isForeign: (namespace: string) => boolean;
  /** The ranges in which workloads are. */
  readonly workloads: () => readonly string[];
  readonly httpPods: ReadonlySet<string>;
}

const NO_RANGES: readonly string[] = [];
const NO_PODS: ReadonlySet<string> = new Set();

/** The listener of a plan, if it is plain. */
export function plainListener(
  memos: Memos,
  plan: OutboundListenerPlan,
  context: PlainContext,
): BuiltListener | undefined {
  const { surroundings, scope, routing, isForeign } = context;
  const { bind, extraBind, port, bindToPort, http, tcp } = plan;
  const target = tcp.length === 1 ? tcp[0] : undefined;
  if (target === undefined || routing.for(target.service.hostname, plan.port).length > 0) return undefined;
  const { routeName = '', grpcWeb = false, dynamicPort } = http ?? {};
  const { service, port: targetPort, protocol, range, shared, resolves } = target;
  const traits = destinationTraits(scope, service.hostname, '', targetPort ?? 0, {
    at: port,
    sds: surroundings.capabilities.sds,
  });
  const tcpInputs = { service, targetPort, protocol, range, shared, resolves };
  const withOthers = isSharedByAll(plan);
  const foreign = withOthers && isForeign(service.namespace);
  const httpPods = withOthers && range !== undefined ? context.httpPods : NO_PODS;
  const workloads = foreign || httpPods.size > 0 ? context.workloads() : NO_RANGES;
  return plainListeners.get(memos, service, {
    ...surroundings,
    ...traits,
    bind,
    extraBind,
    port,
    bindToPort,
    ...tcpInputs,
    routeName,
    grpcWeb,
    dynamicPort,
    foreign,
    workloads,
    httpPods,
  });
}

interface PortInputs extends Surroundings, RuleScope {
  readonly plan: OutboundPortPlan;
  readonly routing: ConnectionRoutes;
  /** The namespace of the callers, if it has services that receive connections of a shared listener. */
  readonly ownTaker: string | undefined;
  readonly workloads: readonly string[];
}

interface PlainPort {
  /** In the order of the plan; undefined for a listener that is not plain. */
  readonly listeners: readonly (BuiltListener | undefined)[];
  /** Set if all listeners are plain. */
  readonly output: UnitOutput | undefined;
}

/** Ports may have thousands of listeners: for namespaces with equal inputs, the parts need not be compared. */
const plainPorts = new InputCache<PortInputs, PlainPort>('plain ports', (inputs, memos) => {
  const { plan, routing, ownTaker, workloads, mesh, settings, capabilities, telemetry, unknown } = inputs;
  const context: PlainContext = {
    surroundings: { mesh, settings, capabilities, telemetry, unknown },
    scope: { services: inputs.services, rules: inputs.rules },
    routing,
    isForeign: foreignNamespaces(inputs, ownTaker),
    workloads: () => workloads,
    httpPods: plan.httpPods,
  };
  const listeners = plan.listeners.map((each) => plainListener(memos, each, context));
  const plain = listeners.filter((listener) => listener !== undefined);
  const complete = plain.length === plan.listeners.length && plan.podTargets.length === 0;
  return { listeners, output: complete ? portOutput(plan, plain) : undefined };
});

export function plainPort(
  snapshot: MeshReader,
  view: OutboundView,
  scope: ScopeReader,
  plan: OutboundPortPlan,
): PlainPort {
  const { egress, services, rules } = scope;
  const { mesh, settings, memos } = snapshot;
  const [only] = egress;
  // A Sidecar with several egress listeners is rarely shared.
  if (only === undefined || egress.length > 1) return { listeners: [], output: undefined };
  const { takers, httpPods } = plan;
  const isForeign = foreignNamespaces(snapshot, view.namespace);
  const concerned = takers.size > 0 && (httpPods.size > 0 || [...takers].some(isForeign));
  return plainPorts.get(memos, plan, {
    mesh,
    settings,
    capabilities: sharedCapabilities(memos, view),
    telemetry: telemetryOf(snapshot, view),
    unknown: unknownTraffic(snapshot, view, scope, Number(plan.unit)),
    services,
    rules,
    plan,
    routing: only.virtualServices.connections,
    ownTaker: takers.has(view.namespace) ? view.namespace : undefined,
    workloads: concerned ? workloadRangesOf(snapshot, view) : NO_RANGES,
  });
}

export function portOutput({ unit, conflicts }: OutboundPortPlan, listeners: readonly BuiltListener[]): UnitOutput {
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
