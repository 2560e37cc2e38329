/**
 * Builds scopes, and has the functions that building and updating share: the service of a host name for a listener, and
 * the services that a scope needs because they are destinations of a virtual service or of unknown traffic.
 */
import type { Memos } from '../../core/memo.ts';
import { PMap } from '../../core/pmap.ts';
import { membersOf } from '../common/groups.ts';
import { hostsOverlap } from '../common/hosts.ts';
import { isVisible } from '../common/visibility.ts';
import type { MeshState } from '../rules/mesh-state.ts';
import { ruleFinder } from '../rules/rule-finder.ts';
import { destinationHosts, meshVirtualServices } from '../rules/virtual-services.ts';
import type { EgressListener, ResolvedVirtualService, Scope, Service } from '../types/types.ts';
import { hasPort, publicServicesAt } from './public-services.ts';
import {
  importsHost,
  type ListenerPlan,
  planScope,
  planSettings,
  planWatches,
  type ScopePlan,
  sidecarKey,
} from './scope-plan.ts';

export interface BuiltScope {
  readonly scope: Scope;
  readonly plan: ScopePlan;
  /**
   * Hosts that are destinations of its virtual services or its egress proxy, which its listeners may not import,
   * sorted.
   */
  readonly routed: readonly string[];
  /** Keys of the hosts that it depends on, sorted. */
  readonly watches: readonly string[];
}

/** The plan of the scope with this id; undefined for a Sidecar that does not exist, and for invalid ids. */
export function planOf(state: MeshState, id: string): ScopePlan | undefined {
  const { settings, sidecars } = state;
  const [namespace, ...path] = id.split('/');
  const name = path.pop();
  if (namespace === undefined || name === undefined || path.length > 1) return undefined;
  if (name === '') return path.length === 0 ? planScope(namespace, undefined, planSettings(state)) : undefined;
  const owner = path[0] ?? namespace;
  if (owner !== namespace && owner !== settings.rootNamespace) return undefined;
  const sidecar = sidecars.get(owner)?.find(({ meta }) => meta.name === name);
  return sidecar === undefined ? undefined : planScope(namespace, sidecar, planSettings(state));
}

/** The service of `hostname` among those that `accept` allows: the namespace's own, else the oldest. */
function choose(
  state: MeshState,
  namespace: string,
  hostname: string,
  accept: (service: Service) => boolean,
): Service | undefined {
  let first: Service | undefined;
  for (const service of state.servicesByHost.get(hostname) ?? []) {
    if (!isVisible(service.exportTo, service.namespace, namespace) || !accept(service)) continue;
    if (service.namespace === namespace) return service;
    first ??= service;
  }
  return first;
}

/** The service of `hostname` for an egress listener. A listener with a port has the services of that port only. */
export function listenerService(
  state: MeshState,
  namespace: string,
  plan: ListenerPlan,
  hostname: string,
): Service | undefined {
  const number = plan.servicePort;
  return choose(
    state,
    namespace,
    hostname,
    (service) => hasPort(service, number) && importsHost(plan, service.namespace, hostname),
  );
}

/**
 * All services that a namespace sees at the port of a listener: the shared map of public services with the differences
 * for this namespace, or the shared map itself when there are none.
 */
function visibleServices(state: MeshState, namespace: string, plan: ListenerPlan): PMap<Service> {
  const differing = [
    ...membersOf(state.hostsByNamespace, namespace),
    ...membersOf(state.hostsExportedTo, namespace),
    // Another of these may have the port.
    ...(plan.servicePort === 0 ? [] : membersOf(state.sharedHosts, '')),
  ];
  return publicServicesAt(state.memos, state.publicServices, plan.servicePort).with(
    differing.map((host) => [host, listenerService(state, namespace, plan, host)]),
  );
}

/** A superset of the host names that a listener imports, mostly in order. */
function* candidateHosts(state: MeshState, plan: ListenerPlan): Generator<string> {
  yield* membersOf(state.wildcardHosts, '');
  for (const [owner, { exact, wildcards }] of plan.imports) {
    yield* exact;
    if (wildcards.length === 0) continue;
    for (const host of hostsOwnedBy(state, owner))
      if (wildcards.some((pattern) => hostsOverlap(pattern, host))) yield host;
  }
}

/** Hosts in order. @param owner a namespace; `*`: all of them */
function hostsOwnedBy(state: MeshState, owner: string): readonly string[] {
  if (owner !== '*') return membersOf(state.hostsByNamespace, owner);
  return state.servicesByHost.sorted().map(([host]) => host);
}

/**
 * The same for each of these ports; 0: any port. A single port has the candidates of all ports, because
 * `listenerService` examines their ports anyway.
 */
function candidatesByPort(
  state: MeshState,
  plan: ListenerPlan,
  numbers: ReadonlySet<number>,
): ReadonlyMap<number, Iterable<string>> {
  const [only] = numbers;
  if (only !== undefined && numbers.size === 1) return new Map([[only, [...candidateHosts(state, plan)]]]);
  const found = new Map(Array.from(numbers, (number) => [number, new Set<string>()] as const));
  const ofAnyPort = found.get(0);
  for (const host of candidateHosts(state, plan)) {
    const services = state.servicesByHost.get(host);
    if (services === undefined) continue;
    ofAnyPort?.add(host);
    for (const { ports } of services) for (const { port } of ports) found.get(port)?.add(host);
  }
  return found;
}

type Imported = Pick<EgressListener, 'services' | 'virtualServices'>;

/**
 * The imports of listeners of a namespace. Listeners of a Sidecar usually import the same hosts at different ports: the
 * hosts are determined once.
 */
function importedBy(state: MeshState, { namespace, listeners }: ScopePlan): (plan: ListenerPlan) => Imported {
  const numbers = new Set(listeners.map(({ servicePort }) => servicePort));
  const visible = meshVirtualServices(state.virtualServices, namespace);
  const groups = new Map<string, { byPort: ReturnType<typeof candidatesByPort> } & Pick<Imported, 'virtualServices'>>();
  return (plan) => {
    if (plan.everything) return { services: visibleServices(state, namespace, plan), virtualServices: visible };
    let group = groups.get(plan.importsKey);
    if (group === undefined) {
      const virtualServices = visible.filter((each) => importsVirtualService(plan, each));
      group = { byPort: candidatesByPort(state, plan, numbers), virtualServices };
      groups.set(plan.importsKey, group);
    }
    const services = new Map<string, Service>();
    for (const host of group.byPort.get(plan.servicePort) ?? []) {
      const service = listenerService(state, namespace, plan, host);
      if (service !== undefined) services.set(host, service);
    }
    return { services: PMap.from(services), virtualServices: group.virtualServices };
  };
}

/** Whether a listener imports one of a virtual service's hosts. */
export function importsVirtualService(plan: ListenerPlan, { namespace, hosts }: ResolvedVirtualService): boolean {
  return plan.everything || hosts.some((host) => importsHost(plan, namespace, host));
}

/**
 * The destination hosts of the listeners' virtual services and the egress proxy; empty if a listener has all services.
 */
export function routedHosts(memos: Memos, plan: ScopePlan, egress: readonly EgressListener[]): readonly string[] {
  if (plan.listeners.some(({ everything, servicePort }) => everything && servicePort === 0)) return [];
  const lists = [...new Set(egress.map(({ virtualServices }) => destinationsOf(memos, virtualServices)))];
  const [only = [], ...others] = lists;
  if (others.length === 0 && plan.egressProxy === undefined) return only;
  const proxy = plan.egressProxy === undefined ? [] : [plan.egressProxy.host];
  return [...new Set([...lists.flat(), ...proxy])].sort();
}

/** The hosts that virtual services send traffic to, sorted. Most scopes have the same list of these. */
function destinationsOf(memos: Memos, virtualServices: EgressListener['virtualServices']): readonly string[] {
  return memos
    .weak<EgressListener['virtualServices'], readonly string[]>('destinations of virtual services')
    .get(virtualServices, () => [...new Set(virtualServices.flatMap((each) => [...destinationHosts(each)]))].sort());
}

/** The service of `hostname` for the scope: from the first listener that has it, else the destination of a route. */
export function scopeService(
  state: MeshState,
  namespace: string,
  egress: readonly EgressListener[],
  routed: ReadonlySet<string>,
  hostname: string,
): Service | undefined {
  for (const { services } of egress) {
    const service = services.get(hostname);
    if (service !== undefined) return service;
  }
  return routed.has(hostname) ? choose(state, namespace, hostname, () => true) : undefined;
}

/** The same for all hosts. */
function unionServices(
  state: MeshState,
  namespace: string,
  egress: readonly EgressListener[],
  routed: readonly string[],
): PMap<Service> {
  const [first] = egress;
  if (first === undefined) return PMap.empty();
  const added = new Map<string, Service>();
  for (const { services } of egress.slice(1)) {
    for (const [host, service] of services.entries())
      if (!added.has(host) && !first.services.has(host)) added.set(host, service);
  }
  for (const host of hostsBeside(state.memos, first.services, routed)) {
    const service = added.has(host) ? undefined : choose(state, namespace, host, () => true);
    if (service !== undefined) added.set(host, service);
  }
  return first.services.with(added);
}

/** Those that are not among the services. Most scopes have the same services and routes. */
function hostsBeside(memos: Memos, services: PMap<Service>, hosts: readonly string[]): readonly string[] {
  return memos
    .pairs<PMap<Service>, readonly string[], readonly string[]>('destinations without the port')
    .get(services, hosts, () => hosts.filter((host) => !services.has(host)));
}

export function buildScope(state: MeshState, plan: ScopePlan): BuiltScope {
  const imported = importedBy(state, plan);
  const egress = plan.listeners.map((listener): EgressListener => {
    const { port, bind, captureMode } = listener;
    return { port, bind, captureMode, ...imported(listener) };
  });
  const routed = routedHosts(state.memos, plan, egress);
  const services = unionServices(state, plan.namespace, egress, routed);
  return assembleScope(state, plan, { egress, services, routed, watches: watchesOf(plan, routed) });
}

export function watchesOf(plan: ScopePlan, routed: readonly string[]): readonly string[] {
  const watches = planWatches(plan);
  if (!watches.has('*/*')) for (const host of routed) watches.add(`*/${host}`);
  return [...watches].sort();
}

export interface ScopeParts {
  readonly egress: readonly EgressListener[];
  readonly services: PMap<Service>;
  readonly routed: readonly string[];
  readonly watches: readonly string[];
}

/** Assembles a scope. It refers to its rules, not to the state, so that it does not keep old snapshots in memory. */
export function assembleScope(state: MeshState, plan: ScopePlan, parts: ScopeParts): BuiltScope {
  const { egress, services, routed, watches } = parts;
  const scope: Scope = {
    id: plan.id,
    namespace: plan.namespace,
    sidecar: sidecarKey(plan),
    egress,
    services,
    ingress: plan.ingress,
    outboundTrafficPolicy: plan.outboundTrafficPolicy ?? state.mesh.outboundTrafficPolicy.mode,
    ...(plan.egressProxy !== undefined && { egressProxy: plan.egressProxy }),
    ...(plan.inboundConnectionPool !== undefined && { inboundConnectionPool: plan.inboundConnectionPool }),
    destinationRule: ruleFinder(state, plan.namespace, services),
  };
  return { scope, plan, routed, watches };
}
