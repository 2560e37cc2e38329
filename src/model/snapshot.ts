/** The snapshot as others see it: questions answered from the state, and scopes built when somebody first asks for them. */
import { CtlError } from '../core/errors.ts';
import type { Kind, Resource } from '../resources/types.ts';
import { isEmptySelector, type Labels, labelsMatch } from './labels.ts';
import type { MeshState } from './mesh-state.ts';
import { networkAddress, networkOfProxy } from './network-names.ts';
import { compareText } from './order.ts';
import { peerAuthenticationOf } from './peer-authentication.ts';
import { registeredLabels } from './registered-workloads.ts';
import { editBook, type ScopeBook } from './scope-book.ts';
import { buildScope } from './scope-build.ts';
import { defaultScopeId, planScope, type ScopePlan, sidecarScopeId } from './scope-plan.ts';
import type { State } from './state.ts';
import { tableOf } from './tables.ts';
import type {
  BoundInstance,
  ConfigKind,
  Gateway,
  MeshSnapshot,
  NameConflict,
  ResolvedVirtualService,
  Scope,
  Service,
  Snapshot,
  SnapshotFindings,
} from './types.ts';
import { gatewayVirtualServices, sourceLabelsOf } from './virtual-services.ts';
import { policiesOf } from './workload-policies.ts';

type Sidecar = Resource<'Sidecar'>;

const NO_SERVICES: readonly Service[] = [];
const NO_INSTANCES: readonly BoundInstance[] = [];
const NO_LABELS: Labels = {};

interface Internals {
  readonly mesh: MeshState;
  /** Grows as scopes are asked for and shrinks as they are released; nothing else of a snapshot ever changes. */
  book: ScopeBook;
}

const internals = new WeakMap<MeshSnapshot, Internals>();
const registries = new WeakMap<MeshSnapshot, State>();

function known<V>(table: WeakMap<MeshSnapshot, V>, snapshot: MeshSnapshot): V {
  const found = table.get(snapshot);
  if (found === undefined) throw new CtlError('invalid_argument', 'expected a snapshot that the model has made');
  return found;
}

export function internalsOf(snapshot: MeshSnapshot): Readonly<Internals> {
  return known(internals, snapshot);
}

export function registryOf(snapshot: Snapshot): State {
  return known(registries, snapshot);
}

/** Number of scopes that a snapshot has built, and that the next one keeps up to date. */
export function builtScopes(snapshot: MeshSnapshot): number {
  return internals.get(snapshot)?.book.built.size ?? 0;
}

/**
 * Lets go of the built scopes that `isUsed` does not want; answers their ids. Later snapshots neither keep them up to date nor say what
 * changes in them. One that is asked for again is built again.
 */
export function releaseScopes(snapshot: MeshSnapshot, isUsed: (id: string) => boolean): readonly string[] {
  const own = internals.get(snapshot);
  const released = own === undefined ? [] : [...own.book.built.keys()].filter((id) => !isUsed(id));
  if (own !== undefined) own.book = editBook(own.book, new Map(released.map((id) => [id, undefined])));
  return released;
}

export function makeSnapshot(registry: State, mesh: MeshState, book: ScopeBook): Snapshot {
  const own: Internals = { mesh, book };
  const tables = { ...registry.resources, ...mesh.configs };
  const snapshot: Snapshot = {
    ...meshSnapshot(own),
    endpoints: registry.endpoints,
    peerAuthenticationOf: (namespace, labels) => peerAuthenticationOf(registry.peerPolicies, namespace, labels),
    policiesOf: (namespace, labels) => policiesOf(registry, namespace, labels),
    servicesByHost: (hostname) => mesh.servicesByHost.get(hostname) ?? NO_SERVICES,
    instancesAt: (network, address) => registry.instances.get(networkAddress(network, address)) ?? NO_INSTANCES,
    networkNames: registry.networkNames.all,
    networkOfProxy: (proxy, address) => networkOfProxy(proxy, address, registry.networkNames, registry.networkOf),
    scopeOf: (namespace, labels) => scopeFor(own, namespace, selectSidecar(mesh, namespace, labels)),
    gatewaysFor(namespace, labels) {
      // Built now, so that the changes of later snapshots say what changes in it.
      scopeFor(own, namespace, undefined);
      return selectGateways(mesh, namespace, labels);
    },
    registeredLabels: (namespace, serviceAccount) => registeredLabels(registry, namespace, serviceAccount),
    places: registry.places.all,
    sourceLabels: (scopeId) => sourceLabels(scopeById(own, scopeId)),
    resources: <K extends Kind>(kind: K) => tableOf(tables, kind),
    findings: () => findingsOf(registry, mesh),
    nameConflicts: () => nameConflictsOf(registry, mesh),
  };
  internals.set(snapshot, own);
  registries.set(snapshot, registry);
  return snapshot;
}

export function makeMeshSnapshot(mesh: MeshState, book: ScopeBook): MeshSnapshot {
  const own: Internals = { mesh, book };
  const snapshot = meshSnapshot(own);
  internals.set(snapshot, own);
  return snapshot;
}

function meshSnapshot(own: Internals): MeshSnapshot {
  const { mesh: state } = own;
  const gatewayRoutes = new Map<string, readonly ResolvedVirtualService[]>();
  return {
    version: state.version,
    settings: state.settings,
    mesh: state.mesh,
    networks: state.networks,
    memos: state.memos,
    services: state.services,
    carriedEndpoints: state.carriedEndpoints,
    peers: state.peers,
    scopeById: (id) => scopeById(own, id),
    gatewayScope: (namespace) => scopeFor(own, namespace, undefined),
    virtualServicesOfGateway(gateway) {
      const known = gatewayRoutes.get(gateway) ?? gatewayVirtualServices(state.virtualServices, gateway);
      gatewayRoutes.set(gateway, known);
      return known;
    },
    resources: <K extends ConfigKind>(kind: K) => tableOf(state.configs, kind),
  };
}

/** Found by the plan's id, or built and kept. */
function scopeFor(own: Internals, namespace: string, sidecar: Sidecar | undefined): Scope {
  const id = sidecar === undefined ? defaultScopeId(namespace) : sidecarScopeId(namespace, sidecar);
  return own.book.built.get(id)?.scope ?? keepScope(own, planScope(namespace, sidecar));
}

function keepScope(own: Internals, plan: ScopePlan): Scope {
  const built = buildScope(own.mesh, plan);
  own.book = editBook(own.book, new Map([[plan.id, built]]));
  return built.scope;
}

/** Any scope that an id can name, so that a replica that was never asked by labels answers as the main thread does. */
function scopeById(own: Internals, id: string): Scope | undefined {
  const known = own.book.built.get(id);
  if (known !== undefined) return known.scope;
  const [namespace, ...path] = id.split('/');
  const name = path.pop();
  if (namespace === undefined || name === undefined || path.length > 1) return undefined;
  if (name === '') return path.length === 0 ? scopeFor(own, namespace, undefined) : undefined;
  const owner = path[0] ?? namespace;
  if (owner !== namespace && owner !== own.mesh.settings.rootNamespace) return undefined;
  const sidecar = own.mesh.sidecars.get(owner)?.find(({ meta }) => meta.name === name);
  return sidecar === undefined ? undefined : scopeFor(own, namespace, sidecar);
}

/** The oldest Sidecar that selects the labels, else the namespace's oldest for all, else the root namespace's. */
function selectSidecar(state: MeshState, namespace: string, labels: Labels): Sidecar | undefined {
  const own = state.sidecars.get(namespace) ?? [];
  const selected = own.find((sidecar) => !isForAll(sidecar) && labelsMatch(selectorOf(sidecar), labels));
  return selected ?? own.find(isForAll) ?? state.sidecars.get(state.settings.rootNamespace)?.find(isForAll);
}

function selectorOf({ content }: Sidecar): Labels {
  return content.workloadSelector?.labels ?? NO_LABELS;
}

function isForAll(sidecar: Sidecar): boolean {
  return isEmptySelector(selectorOf(sidecar));
}

function selectGateways(state: MeshState, namespace: string, labels: Labels): readonly Gateway[] {
  return state.gateways.filter(({ meta, content }) => {
    if (state.settings.scopeGatewayToNamespace && meta.namespace !== namespace) return false;
    return labelsMatch(content.selector ?? NO_LABELS, labels);
  });
}

/** By list, because scopes share lists: many namespaces cost one walk. */
const labelsOfList = new WeakMap<readonly ResolvedVirtualService[], ReadonlySet<string>>();

function labelsOf(list: readonly ResolvedVirtualService[]): ReadonlySet<string> {
  const known = labelsOfList.get(list);
  if (known !== undefined) return known;
  const labels = new Set(list.flatMap((virtualService) => [...sourceLabelsOf(virtualService)]));
  labelsOfList.set(list, labels);
  return labels;
}

function sourceLabels(scope: Scope | undefined): readonly string[] {
  const lists = scope?.egress.map(({ virtualServices }) => virtualServices) ?? [];
  return [...new Set(lists.flatMap((list) => [...labelsOf(list)]))].sort();
}

function nameConflictsOf(registry: State, mesh: MeshState): readonly NameConflict[] {
  const all = [...registry.nameConflicts.entries(), ...mesh.nameConflicts.entries()];
  return all.sort(([a], [b]) => compareText(a, b)).flatMap(([, conflicts]) => conflicts);
}

function findingsOf(registry: State, mesh: MeshState): SnapshotFindings {
  const { totals } = registry;
  return {
    duplicateSubsets: mesh.duplicateSubsets,
    endpointsNotReady: totals.notReady,
    endpointsPendingPod: totals.pendingPod,
    endpointsWithoutPod: totals.withoutPod,
    servicesWithoutInstances: totals.withoutInstances,
    podsWithoutService: registry.unservedPods.size,
    duplicateClusters: totals.duplicateClusters,
    nameConflicts: [...registry.nameConflicts.values(), ...mesh.nameConflicts.values()].reduce(
      (sum, { length }) => sum + length,
      0,
    ),
  };
}
