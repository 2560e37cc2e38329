/** Debug pages about the mesh: services, endpoints, conflicts and refused policies. */
import type { ProxyNode } from '../core/proxy.ts';
import { CORE_KINDS, MESH_KINDS } from '../resources/index.ts';
import { shownProblem } from './configz.ts';
import { lazyList } from './proxies.ts';
import type { Viewed } from './viewed.ts';

/** `/debug/resourcesz`: the number of resources of each kind. */
export function resourcesz(mesh: Viewed): Record<string, number> {
  return Object.fromEntries([...CORE_KINDS, ...MESH_KINDS].map((kind) => [kind, [...mesh.resources(kind)].length]));
}

/** `/debug/registryz`: every service. */
export function registryz(mesh: Viewed): Iterable<unknown> {
  return lazyList(mesh.services(), ([, service]) => service);
}

/** `/debug/endpointz`: endpoints by service and port. */
export function* endpointz(mesh: Viewed): Generator<unknown> {
  for (const [, service] of mesh.services()) {
    for (const port of service.ports) {
      yield {
        svc: `${service.hostname}:${port.name}`,
        namespace: service.namespace,
        port: port.port,
        ep: mesh.endpoints(service).filter((endpoint) => endpoint.servicePort === port.name),
      };
    }
  }
}

/** `/debug/endpointShardz`: host name → namespace → endpoints. */
export function endpointShardz(mesh: Viewed): ReadonlyMap<string, ReadonlyMap<string, unknown>> {
  const shards = new Map<string, Map<string, unknown>>();
  for (const [, service] of mesh.services()) {
    const namespaces = shards.get(service.hostname) ?? new Map<string, unknown>();
    shards.set(service.hostname, namespaces.set(service.namespace, mesh.endpoints(service)));
  }
  return shards;
}

/** `/debug/instancesz`: the services that each connected proxy serves. */
export function instancesz(mesh: Viewed): ReadonlyMap<string, unknown> {
  const nodes = new Map(mesh.connections().map(({ node }) => [node.id, node]));
  const names = Map.groupBy(nodes.values(), ({ workload }) => workload);
  // Machines may have the same name.
  const nameOf = ({ id, workload }: ProxyNode) => (names.get(workload)?.length === 1 ? workload : id);
  return new Map([...nodes.values()].map((node) => [nameOf(node), () => mesh.instancesOf(node)]));
}

/**
 * `/debug/push_status`: findings of generation by metric, views that cannot be generated, and the state of the engine.
 */
export function pushStatus(mesh: Viewed): Record<string, unknown> {
  const findings = new Map<string, Set<string>>();
  for (const { metric, message } of mesh.findings()) {
    const messages = findings.get(metric) ?? new Set();
    findings.set(metric, messages.add(message));
  }
  const nameConflicts = lazyList(mesh.nameConflicts(), ({ message }) => message);
  const refusedPolicies = lazyList(mesh.refusedPolicies(), ({ problem, keys, inForce }) => ({
    ...shownProblem(problem),
    inForce,
    resources: keys,
  }));
  return { ...mesh.totals(), findings, nameConflicts, refusedPolicies };
}
