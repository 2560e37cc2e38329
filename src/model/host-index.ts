/** Indexes of services: by host name, and by the namespaces that see them. */
import type { Slices } from '../core/slices.ts';
import { GroupEdits } from './common/groups.ts';
import { isWildcardHost } from './common/hosts.ts';
import { compareCreated, compareText } from './common/order.ts';
import { isPublic } from './common/visibility.ts';
import type { ServiceChange } from './registry/services.ts';
import type { MeshState } from './rules/mesh-state.ts';
import { hostConflicts, servicesInForce } from './services/ownership.ts';
import type { NameConflict, Service, ServiceKey } from './types/types.ts';

/** Kubernetes Services first, then oldest first, then by namespace. */
function compareServices(a: Service, b: Service): number {
  if (a.registry !== b.registry) return a.registry === 'Orchestrator' ? -1 : 1;
  return compareCreated(a.created, b.created) || compareText(a.namespace, b.namespace);
}

/** Indexes by host name and namespace, after the services in `changes`. */
export function* indexHosts(state: MeshState, changes: ReadonlyMap<ServiceKey, ServiceChange>): Slices<MeshState> {
  if (changes.size === 0) return state;
  const hosts = new Map<string, Map<ServiceKey, Service>>();
  const hostsByNamespace = new GroupEdits();
  const hostsExportedTo = new GroupEdits();
  const wildcardHosts = new GroupEdits();
  const sharedHosts = new GroupEdits();
  for (const [key, { before, after }] of changes) {
    const service = after ?? before;
    if (service === undefined) continue;
    const { hostname, namespace } = service;
    let all = hosts.get(hostname);
    if (all === undefined) {
      all = new Map((state.claimants.get(hostname) ?? []).map((known) => [known.key, known]));
      hosts.set(hostname, all);
    }
    if (after === undefined) {
      all.delete(key);
      hostsByNamespace.remove(namespace, hostname);
    } else {
      all.set(key, after);
      hostsByNamespace.add(namespace, hostname);
    }
    yield;
  }
  const byHost: [string, readonly Service[] | undefined][] = [];
  const publicHosts: [string, Service | undefined][] = [];
  const claimants: [string, readonly Service[] | undefined][] = [];
  const conflicts: [string, readonly NameConflict[] | undefined][] = [];
  for (const [hostname, claims] of hosts) {
    const all = [...claims.values()].sort(compareServices);
    claimants.push([hostname, all.length === 0 ? undefined : all]);
    const lost = hostConflicts(all, state);
    conflicts.push([`host:${hostname}`, lost.length === 0 ? undefined : lost]);
    const list = servicesInForce(all);
    byHost.push([hostname, list.length === 0 ? undefined : list]);
    publicHosts.push([hostname, list.find(({ exportTo }) => isPublic(exportTo))]);
    hostsExportedTo.move(hostname, namedNamespaces(state.servicesByHost.get(hostname)), namedNamespaces(list));
    sharedHosts.move(hostname, groupIfShared(state.servicesByHost.get(hostname)), groupIfShared(list));
    if (isWildcardHost(hostname)) wildcardHosts.move(hostname, [''], list.length === 0 ? [] : ['']);
    yield;
  }
  const claimed = {
    ...state,
    claimants: state.claimants.with(claimants),
    nameConflicts: state.nameConflicts.with(conflicts),
  };
  yield;
  return {
    ...claimed,
    servicesByHost: state.servicesByHost.with(byHost),
    publicServices: state.publicServices.with(publicHosts),
    sharedHosts: sharedHosts.apply(state.sharedHosts),
    hostsByNamespace: hostsByNamespace.apply(state.hostsByNamespace),
    hostsExportedTo: hostsExportedTo.apply(state.hostsExportedTo),
    wildcardHosts: wildcardHosts.apply(state.wildcardHosts),
  };
}

/** Computes the conflicts of all hosts after a change of the mesh configuration. */
export function withHostConflicts(state: MeshState): MeshState {
  const conflicts = [...state.claimants.entries()].map(([hostname, all]) => {
    const lost = hostConflicts(all, state);
    return [`host:${hostname}`, lost.length === 0 ? undefined : lost] as const;
  });
  return { ...state, nameConflicts: state.nameConflicts.with(conflicts) };
}

function groupIfShared(services: readonly Service[] | undefined): readonly string[] {
  return services === undefined || services.length < 2 ? [] : [''];
}

function namedNamespaces(services: readonly Service[] | undefined): string[] {
  const names = (services ?? []).flatMap(({ exportTo }) => exportTo);
  return [...new Set(names)].filter((name) => name !== '*' && name !== '.' && name !== '~');
}
