/** Snapshots: a read-only interface to a state and its scopes. */
import { InternalError } from '../core/errors.ts';
import type { Memos } from '../core/memo.ts';
import type { Kind, ResourceKey } from '../resources/index.ts';
import { membersOf } from './common/groups.ts';
import { type Labels, labelsMatch } from './common/labels.ts';
import { addressId } from './common/networks.ts';
import { compareText } from './common/order.ts';
import { tableOf } from './common/tables.ts';
import { peerAuthenticationOf } from './policies/peer-authentication.ts';
import { envoyFiltersOf, GATEWAY_NAME, policiesOf, telemetryOf } from './policies/workload-policies.ts';
import { instancesAt } from './registry/instances.ts';
import type { State } from './registry/state.ts';
import { workloadAt } from './registry/workload-at.ts';
import { selectedLabels } from './rules/destination-rules.ts';
import { countEmptySubsets } from './rules/empty-subsets.ts';
import type { MeshState } from './rules/mesh-state.ts';
import { gatewayVirtualServices, sourceLabelsOf } from './rules/virtual-services.ts';
import { type MeshScopes, scopeIdOf } from './scopes/scope-source.ts';
import type {
  ConfigKind,
  Gateway,
  MeshSnapshot,
  NameConflict,
  ResolvedVirtualService,
  Scope,
  Service,
  Snapshot,
  SnapshotFindings,
} from './types/types.ts';
import { networkOfProxy } from './workloads/network-names.ts';
import { registeredLabels } from './workloads/registered-workloads.ts';
import { networkOfWorkload } from './workloads/workloads.ts';

const NO_SERVICES: readonly Service[] = [];
const NO_LABELS: Labels = {};
const NO_RULE_LABELS: readonly string[] = [];

export function wholeSnapshot(registry: State, mesh: MeshState, scopes: MeshScopes): Snapshot {
  const tables = { ...registry.resources, ...mesh.configs };
  const scopeOf: Snapshot['scopeOf'] = (namespace, labels) => {
    const scope = scopes.get(scopeIdOf(mesh, namespace, labels));
    if (scope === undefined) throw new InternalError(`no scope of namespace ${namespace}`);
    return scope;
  };
  return {
    ...meshSnapshot(mesh, scopes),
    endpoints: registry.endpoints,
    peerAuthenticationOf: (namespace, labels) => peerAuthenticationOf(registry.peerPolicies, namespace, labels),
    policiesOf: (namespace, labels) => policiesOf(registry, namespace, labels),
    envoyFiltersOf: (namespace, labels) => envoyFiltersOf(registry, namespace, labels),
    telemetryOf: (namespace, labels) => telemetryOf(registry, namespace, labels),
    servicesByHost: (hostname) => mesh.servicesByHost.get(hostname) ?? NO_SERVICES,
    instancesAt: (network, address) => instancesAt(registry, network, address),
    workloadAt: (network, address, namespace) => workloadAt(registry, network, address, namespace),
    ownersOf: (address) => ownersOf(registry, address),
    networkNames: registry.networkNames.all,
    gatewayHosts: registry.networkGateways.hosts,
    gatewayProblems: registry.networkGateways.problems,
    addressClusters: registry.addressClusters.all,
    endpointClusters: registry.endpointClusters.all,
    networkOfProxy: (proxy, address) => networkOfProxy(proxy, address, registry.networkNames, registry.networkOf),
    networkOfWorkload: (workload, address) => networkOfWorkload(workload, address, registry.networkOf),
    scopeOf,
    gatewaysFor: (namespace, labels) => selectGateways(mesh, namespace, labels),
    registeredLabels: (namespace, serviceAccount) => registeredLabels(registry, namespace, serviceAccount),
    localityNames: registry.localities.all,
    sourceLabels: (scopeId) => sourceLabels(mesh.memos, scopes.get(scopeId)),
    ruleLabels(scope) {
      const rules = mesh.rules.get(scope.namespace);
      return rules === undefined ? NO_RULE_LABELS : selectedLabels(mesh.memos, rules, scope);
    },
    resources: <K extends Kind>(kind: K) => tableOf(tables, kind),
    findings: () => findingsOf(registry, mesh),
    clustersWithoutInstances: () => registry.totals.withoutInstances + countEmptySubsets(mesh, registry.endpoints),
    nameConflicts: () => nameConflictsOf(registry, mesh),
  };
}

/** The snapshot of the parts of a state that generation may read. */
export function meshSnapshot(state: MeshState, scopes: MeshScopes): MeshSnapshot {
  const routes = state.memos.weak<MeshState['virtualServices'], Map<string, readonly ResolvedVirtualService[]>>(
    'virtual services of gateways',
  );
  return {
    version: state.version,
    settings: state.settings,
    mesh: state.mesh,
    networks: state.networks,
    workloadRanges: state.workloadRanges,
    networkGateways: state.networkGateways,
    memos: state.memos,
    services: state.services,
    carriedEndpoints: state.carriedEndpoints,
    peers: state.peers,
    scopeById: (id) => scopes.get(id),
    gatewayScope: (namespace) => scopes.ofNamespace(namespace),
    virtualServicesOfGateway(gateway) {
      const byGateway = routes.get(state.virtualServices, () => new Map());
      const known = byGateway.get(gateway) ?? gatewayVirtualServices(state.virtualServices, gateway);
      byGateway.set(gateway, known);
      return known;
    },
    rootsOf: (delegate) => membersOf(state.virtualServices.roots, delegate) as readonly ResourceKey[],
    resources: <K extends ConfigKind>(kind: K) => tableOf(state.configs, kind),
  };
}

/**
 * The Gateways that select a proxy. The proxies of a Gateway of the Kubernetes Gateway API only belong to this Gateway,
 * which decides which routes may attach: Gateways of other namespaces cannot add servers to them.
 */
function selectGateways(state: MeshState, namespace: string, labels: Labels): readonly Gateway[] {
  const isOwned = Object.hasOwn(labels, GATEWAY_NAME);
  return state.gateways.filter(({ meta, content }) => {
    const isOwnOnly = isOwned || state.settings.scopeGatewayToNamespace || content.ownNamespace === true;
    if (isOwnOnly && meta.namespace !== namespace) return false;
    return labelsMatch(content.selector ?? NO_LABELS, labels);
  });
}

function sourceLabels(memos: Memos, scope: Scope | undefined): readonly string[] {
  // Computed for each list: scopes share lists, so many namespaces need only one pass.
  const byList = memos.weak<readonly ResolvedVirtualService[], ReadonlySet<string>>('source labels');
  const lists = scope?.egress.map(({ virtualServices }) => virtualServices) ?? [];
  const labels = lists.map((list) =>
    byList.get(list, () => new Set(list.flatMap((each) => [...sourceLabelsOf(each)]))),
  );
  return [...new Set(labels.flatMap((each) => [...each]))].sort();
}

function ownersOf({ podsByIp, addressOwners }: State, address: string): readonly ResourceKey[] {
  const id = addressId(address) ?? address;
  const others = membersOf(addressOwners, id).filter((key) => !key.startsWith('Node/'));
  return [...membersOf(podsByIp, id), ...others];
}

function nameConflictsOf(registry: State, mesh: MeshState): readonly NameConflict[] {
  const all = [...registry.nameConflicts.entries(), ...mesh.nameConflicts.entries()];
  return all.sort(([a], [b]) => compareText(a, b)).flatMap(([, conflicts]) => conflicts);
}

function findingsOf(registry: State, mesh: MeshState): SnapshotFindings {
  const { totals } = registry;
  return {
    duplicateSubsets: mesh.duplicateSubsets,
    endpoints: totals.instances,
    endpointsNotReady: totals.notReady,
    endpointsPendingPod: totals.pendingPod,
    endpointsWithoutPod: totals.withoutPod,
    podsWithoutService: registry.unservedPods.size,
    duplicateClusters: totals.duplicateClusters,
    nameConflicts: [...registry.nameConflicts.values(), ...mesh.nameConflicts.values()].reduce(
      (sum, conflicts) => sum + conflicts.filter(({ about }) => about === undefined).length,
      0,
    ),
  };
}
