/** The snapshot as others see it: questions answered from the state, and scopes built when somebody first asks for them. */
import { CtlError } from '../core/errors.ts';
import type { Kind, Resource } from '../resources/types.ts';
import { isEmptySelector, type Labels, labelsMatch } from './labels.ts';
import { peerAuthenticationOf } from './peer-authentication.ts';
import { registeredLabels } from './registered-workloads.ts';
import { editBook, type ScopeBook } from './scope-book.ts';
import { buildScope } from './scope-build.ts';
import { defaultScopeId, planScope, type ScopePlan, sidecarScopeId } from './scope-plan.ts';
import { type State, tableOf } from './state.ts';
import type {
  BoundInstance,
  Gateway,
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
  readonly state: State;
  /** Grows as scopes are asked for and shrinks as they are released; nothing else of a snapshot ever changes. */
  book: ScopeBook;
}

const internals = new WeakMap<Snapshot, Internals>();

/** What a snapshot of this room is made of. */
export function internalsOf(snapshot: Snapshot): { readonly state: State; readonly book: ScopeBook } {
  const own = internals.get(snapshot);
  if (own === undefined)
    throw new CtlError('invalid_argument', 'expected a snapshot made by createModel or applyChanges');
  return own;
}

/** Number of scopes that a snapshot has built, and that the next one keeps up to date. */
export function builtScopes(snapshot: Snapshot): number {
  return internals.get(snapshot)?.book.built.size ?? 0;
}

/**
 * Lets go of the built scopes that `isUsed` does not want; answers their ids. Later snapshots neither keep them up to date nor say what
 * changes in them. One that is asked for again is built again.
 */
export function releaseScopes(snapshot: Snapshot, isUsed: (id: string) => boolean): readonly string[] {
  const own = internals.get(snapshot);
  const released = own === undefined ? [] : [...own.book.built.keys()].filter((id) => !isUsed(id));
  if (own !== undefined) own.book = editBook(own.book, new Map(released.map((id) => [id, undefined])));
  return released;
}

export function makeSnapshot(state: State, book: ScopeBook): Snapshot {
  const own: Internals = { state, book };
  const gatewayRoutes = new Map<string, readonly ResolvedVirtualService[]>();
  const snapshot: Snapshot = {
    version: state.version,
    settings: state.settings,
    mesh: state.mesh,
    networks: state.networks,
    memos: state.memos,
    services: state.services,
    endpoints: state.endpoints,
    carriedEndpoints: state.carriedEndpoints,
    peers: state.peers,
    peerAuthenticationOf: (namespace, labels) => peerAuthenticationOf(state.peerPolicies, namespace, labels),
    policiesOf: (namespace, labels) => policiesOf(state, namespace, labels),
    servicesByHost: (hostname) => state.servicesByHost.get(hostname) ?? NO_SERVICES,
    instancesAt: (address) => state.instances.get(address) ?? NO_INSTANCES,
    scopeOf: (namespace, labels) => scopeFor(own, namespace, selectSidecar(state, namespace, labels)),
    scopeById: (id) => scopeById(own, id),
    gatewaysFor(namespace, labels) {
      // Built now, so that the changes of later snapshots say what changes in it.
      scopeFor(own, namespace, undefined);
      return selectGateways(state, namespace, labels);
    },
    registeredLabels: (namespace, serviceAccount) => registeredLabels(state, namespace, serviceAccount),
    virtualServicesOfGateway(gateway) {
      const known = gatewayRoutes.get(gateway) ?? gatewayVirtualServices(state.virtualServices, gateway);
      gatewayRoutes.set(gateway, known);
      return known;
    },
    gatewayScope: (namespace) => scopeFor(own, namespace, undefined),
    places: state.places.all,
    sourceLabels: (scopeId) => sourceLabels(scopeById(own, scopeId)),
    resources: <K extends Kind>(kind: K) => tableOf(state.resources, kind),
    findings: () => findingsOf(state),
    nameConflicts: () => nameConflictsOf(state),
  };
  internals.set(snapshot, own);
  return snapshot;
}

/** Found by the plan's id, or built and kept. */
function scopeFor(own: Internals, namespace: string, sidecar: Sidecar | undefined): Scope {
  const id = sidecar === undefined ? defaultScopeId(namespace) : sidecarScopeId(namespace, sidecar);
  return own.book.built.get(id)?.scope ?? keepScope(own, planScope(namespace, sidecar));
}

function keepScope(own: Internals, plan: ScopePlan): Scope {
  const built = buildScope(own.state, plan);
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
  if (owner !== namespace && owner !== own.state.settings.rootNamespace) return undefined;
  const sidecar = own.state.sidecars.get(owner)?.find(({ meta }) => meta.name === name);
  return sidecar === undefined ? undefined : scopeFor(own, namespace, sidecar);
}

/** The oldest Sidecar that selects the labels, else the namespace's oldest for all, else the root namespace's. */
function selectSidecar(state: State, namespace: string, labels: Labels): Sidecar | undefined {
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

function selectGateways(state: State, namespace: string, labels: Labels): readonly Gateway[] {
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

function nameConflictsOf(state: State): readonly NameConflict[] {
  return state.nameConflicts.sorted().flatMap(([, conflicts]) => conflicts);
}

function findingsOf(state: State): SnapshotFindings {
  const { totals } = state;
  return {
    duplicateSubsets: totals.duplicateSubsets,
    endpointsNotReady: totals.notReady,
    endpointsPendingPod: totals.pendingPod,
    endpointsWithoutPod: totals.withoutPod,
    servicesWithoutInstances: totals.withoutInstances,
    podsWithoutService: state.unservedPods.size,
    duplicateClusters: totals.duplicateClusters,
    nameConflicts: [...state.nameConflicts.values()].reduce((sum, { length }) => sum + length, 0),
  };
}
