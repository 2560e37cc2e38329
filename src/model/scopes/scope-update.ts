/**
 * The last step of a change: updates the affected scopes and determines the exact differences. The cost follows the
 * number of scopes that depend on what changed.
 */
import type { Slices } from '../../core/slices.ts';
import type { Resource, ResourceKey } from '../../resources/index.ts';
import { deepEqual } from '../common/equal.ts';
import { membersOf } from '../common/groups.ts';
import { isVisible } from '../common/visibility.ts';
import type { ServiceChange } from '../registry/services.ts';
import type { RuleGroupChange, RuleTable } from '../rules/destination-rules.ts';
import type { MeshState } from '../rules/mesh-state.ts';
import { isForMesh, replaceResolved, seenFrom, type VirtualServiceChange } from '../rules/virtual-services.ts';
import type {
  EgressListener,
  ResolvedVirtualService,
  Scope,
  ScopeChange,
  Service,
  ServiceKey,
} from '../types/types.ts';
import { changedServicesAt, publicServicesAt } from './public-services.ts';
import {
  assembleScope,
  type BuiltScope,
  buildScope,
  importsVirtualService,
  listenerService,
  planOf,
  routedHosts,
  scopeService,
  watchesOf,
} from './scope-build.ts';
import { editIndex, type ScopeIndex, scopesWatching } from './scope-index.ts';
import { type ListenerPlan, planScope, planSettings, type ScopePlan } from './scope-plan.ts';
import { compareRulesOf, type RuleComparer } from './scope-rules.ts';

export interface ScopeInputs {
  /** The previous state's map, which scopes that only see public services share. */
  readonly publicServices: MeshState['publicServices'];
  readonly services: ReadonlyMap<ServiceKey, ServiceChange>;
  readonly virtualServices: ReadonlyMap<ResourceKey, VirtualServiceChange>;
  readonly rules: readonly RuleGroupChange[];
  readonly previousRules: RuleTable;
  /** Sidecars whose content or age changed, with the new version, or undefined if deleted. */
  readonly sidecars: ReadonlyMap<ResourceKey, Resource<'Sidecar'> | undefined>;
}

interface Touched {
  readonly hosts: Set<string>;
  readonly virtualServices: Set<ResourceKey>;
  readonly rules: Set<RuleGroupChange>;
}

interface UpdateInputs extends ScopeInputs {
  readonly changedRules: RuleComparer;
}

type Changes<V> = Map<ResourceKey, { readonly before: V | undefined; readonly after: V | undefined }>;

export interface ScopeResults {
  readonly scopeIndex: ScopeIndex;
  readonly changes: ReadonlyMap<string, ScopeChange>;
}

/** The change of a scope of which everything may differ. */
export const EVERYTHING: ScopeChange = {
  everything: true,
  hosts: new Set(),
  destinationRules: new Set(),
  virtualServices: new Map(),
};

export function rebuildScopes(scopeIndex: ScopeIndex, state: MeshState): ScopeResults {
  const changes = new Map<string, ScopeChange>();
  const edits = new Map<string, BuiltScope | undefined>();
  for (const id of [...scopeIndex.built.keys(), ...scopeIndex.absent].sort()) {
    const plan = planOf(state, id);
    edits.set(id, plan && buildScope(state, plan));
    if (plan !== undefined || scopeIndex.built.has(id)) changes.set(id, EVERYTHING);
  }
  return { scopeIndex: editIndex(scopeIndex, edits), changes };
}

export function* updateScopes(scopeIndex: ScopeIndex, state: MeshState, inputs: ScopeInputs): Slices<ScopeResults> {
  const edits = new Map<string, BuiltScope | undefined>();
  const changes = new Map<string, ScopeChange>();
  const replace = (id: string, scope: BuiltScope | undefined): void => {
    edits.set(id, scope);
    changes.set(id, EVERYTHING);
  };
  if (inputs.sidecars.size > 0) replaceScopesOfSidecars(scopeIndex, state, inputs.sidecars, replace);
  if (scopeIndex.built.size === 0) return { scopeIndex: editIndex(scopeIndex, edits), changes };
  const own = { ...inputs, changedRules: compareRulesOf(inputs.previousRules, state.rules) };
  for (const [id, touched] of yield* touchedScopes(scopeIndex, state, inputs)) {
    const before = scopeIndex.built.get(id);
    if (before === undefined || edits.has(id)) continue;
    const { after, change } = updateScope(before, state, touched, own);
    if (after === before) continue;
    edits.set(id, after);
    if (change !== undefined) changes.set(id, change);
    yield;
  }
  return { scopeIndex: editIndex(scopeIndex, edits), changes };
}

/** Builds the scopes whose Sidecar appeared, and those whose Sidecar differs in more than its selector. */
function replaceScopesOfSidecars(
  scopeIndex: ScopeIndex,
  state: MeshState,
  sidecars: ScopeInputs['sidecars'],
  replace: (id: string, scope: BuiltScope | undefined) => void,
): void {
  for (const id of scopeIndex.absent) {
    const plan = planOf(state, id);
    if (plan !== undefined) replace(id, buildScope(state, plan));
  }
  for (const [key, sidecar] of sidecars) {
    for (const id of membersOf(scopeIndex.bySidecar, key)) {
      const before = scopeIndex.built.get(id);
      if (before === undefined) continue;
      const plan = sidecar === undefined ? undefined : planScope(before.plan.namespace, sidecar, planSettings(state));
      if (plan !== undefined && samePlan(before.plan, plan)) continue;
      replace(id, plan === undefined ? undefined : buildScope(state, plan));
    }
  }
}

function samePlan(a: ScopePlan, b: ScopePlan): boolean {
  const content = ({ sidecar }: ScopePlan) => ({ ...sidecar?.content, workloadSelector: undefined });
  return deepEqual(content(a), content(b));
}

/** The inputs that may affect a scope, created when the first of them is found. */
type TouchedScope = (id: string) => Touched;

function* touchedScopes(
  scopeIndex: ScopeIndex,
  state: MeshState,
  inputs: ScopeInputs,
): Slices<ReadonlyMap<string, Touched>> {
  const touched = new Map<string, Touched>();
  const at = (id: string): Touched => {
    let known = touched.get(id);
    if (known === undefined) {
      known = { hosts: new Set(), virtualServices: new Set(), rules: new Set() };
      touched.set(id, known);
    }
    return known;
  };
  yield* touchByServices(scopeIndex, state, inputs.services, at);
  yield* touchByVirtualServices(scopeIndex, inputs.virtualServices, at);
  for (const change of inputs.rules) touchByRule(scopeIndex, state, change, at);
  return touched;
}

function* touchByServices(
  scopeIndex: ScopeIndex,
  state: MeshState,
  services: ScopeInputs['services'],
  at: TouchedScope,
): Slices<void> {
  for (const { before, after } of services.values()) {
    // A new Service takes the host from other services, and a deleted one returns it, even in namespaces that do not
    // see the Service.
    const others = state.claimants.get((after ?? before)?.hostname ?? '') ?? [];
    for (const service of new Set([before, after, ...others])) {
      if (service === undefined) continue;
      const { namespace, hostname, exportTo } = service;
      for (const id of scopesWatching(scopeIndex, namespace, hostname)) {
        if (isVisible(exportTo, namespace, namespaceOf(scopeIndex, id))) at(id).hosts.add(hostname);
      }
    }
    yield;
  }
}

function* touchByVirtualServices(
  scopeIndex: ScopeIndex,
  virtualServices: ScopeInputs['virtualServices'],
  at: TouchedScope,
): Slices<void> {
  for (const [key, { before, after }] of virtualServices) {
    for (const entry of [before, after]) {
      if (entry === undefined || !isForMesh(entry)) continue;
      const { namespace, hosts } = entry.resolved;
      const ids = new Set(hosts.flatMap((host) => [...scopesWatching(scopeIndex, namespace, host)]));
      for (const id of ids) {
        if (isVisible(entry.exportTo, namespace, namespaceOf(scopeIndex, id))) at(id).virtualServices.add(key);
      }
    }
    yield;
  }
}

function touchByRule(scopeIndex: ScopeIndex, state: MeshState, change: RuleGroupChange, at: TouchedScope): void {
  const { namespace, host } = change;
  if (namespace === state.settings.rootNamespace) {
    for (const id of scopeIndex.built.keys()) at(id).rules.add(change);
    return;
  }
  for (const id of membersOf(scopeIndex.byNamespace, namespace)) at(id).rules.add(change);
  for (const id of scopesWatching(scopeIndex, namespace, host)) at(id).rules.add(change);
}

function namespaceOf(scopeIndex: ScopeIndex, id: string): string {
  return scopeIndex.built.get(id)?.plan.namespace ?? '';
}

function updateScope(
  built: BuiltScope,
  state: MeshState,
  touched: Touched,
  inputs: UpdateInputs,
): { after: BuiltScope; change: ScopeChange | undefined } {
  const { scope, plan } = built;
  const hosts = new Set<string>();
  const virtualServices: Changes<ResolvedVirtualService> = new Map();
  const egress = scope.egress.map((listener, index) => {
    const own = plan.listeners[index];
    if (own === undefined) return listener;
    const services = nextServices(listener, own, plan.namespace, state, touched.hosts, inputs.publicServices, hosts);
    const list = nextVirtualServices(listener, own, plan.namespace, state, touched, inputs, virtualServices);
    const same = services === listener.services && list === listener.virtualServices;
    return same ? listener : { ...listener, services, virtualServices: list };
  });
  const routed = virtualServices.size === 0 ? built.routed : routedHosts(state.memos, plan, egress);
  const services = nextUnion(built, egress, routed, state, new Set([...touched.hosts, ...hosts]), hosts);
  const watches = routed === built.routed ? built.watches : watchesOf(plan, routed);
  const after = assembleScope(state, plan, { egress, services, routed, watches });
  const destinationRules = inputs.changedRules(scope, after.scope, touched.rules, hosts);
  if (hosts.size === 0 && virtualServices.size === 0 && destinationRules.size === 0) {
    return { after: built, change: undefined };
  }
  return { after, change: { everything: false, hosts, destinationRules, virtualServices } };
}

/** A listener's new services; adds the hosts that differ to `changed`. */
function nextServices(
  listener: EgressListener,
  plan: ListenerPlan,
  namespace: string,
  state: MeshState,
  touched: ReadonlySet<string>,
  sharedBefore: EgressListener['services'],
  changed: Set<string>,
): EgressListener['services'] {
  if (touched.size === 0) return listener.services;
  const edits: [string, Service | undefined][] = [];
  const shared = plan.everything ? sharedServices(listener, plan, state, touched, sharedBefore) : undefined;
  let shares = shared !== undefined;
  for (const host of touched) {
    const service = listenerService(state, namespace, plan, host);
    if (service !== shared?.get(host)) shares = false;
    if (service === listener.services.get(host)) continue;
    edits.push([host, service]);
    changed.add(host);
  }
  if (edits.length === 0) return listener.services;
  // Namespaces that only see public services keep sharing one map.
  return shared !== undefined && shares ? shared : listener.services.with(edits);
}

/** The next version of the map of public services that a listener has; undefined if it has its own. */
function sharedServices(
  { services }: EgressListener,
  { servicePort }: ListenerPlan,
  { memos, publicServices }: MeshState,
  touched: ReadonlySet<string>,
  before: EgressListener['services'],
): EgressListener['services'] | undefined {
  if (services !== publicServicesAt(memos, before, servicePort)) return undefined;
  return changedServicesAt(memos, { before, after: publicServices, hosts: touched }, servicePort);
}

/** A listener's new virtual services; adds the ones that differ to `changed`. */
function nextVirtualServices(
  listener: EgressListener,
  plan: ListenerPlan,
  namespace: string,
  state: MeshState,
  touched: Touched,
  inputs: ScopeInputs,
  changed: Changes<ResolvedVirtualService>,
): EgressListener['virtualServices'] {
  const own: (readonly [before: ResolvedVirtualService | undefined, after: ResolvedVirtualService | undefined])[] = [];
  for (const key of touched.virtualServices) {
    const change = inputs.virtualServices.get(key);
    const before = seenThrough(change?.before, plan, namespace);
    const after = seenThrough(change?.after, plan, namespace);
    if (before === after) continue;
    own.push([before, after]);
    const known = changed.get(key);
    changed.set(key, { before: known?.before ?? before, after: known?.after ?? after });
  }
  if (own.length === 0) return listener.virtualServices;
  // Namespaces that only see public virtual services share one list, which exists already.
  if (plan.everything && membersOf(state.virtualServices.privateMesh, namespace).length === 0)
    return state.virtualServices.publicMesh;
  return own.reduce((list, [before, after]) => replaceResolved(list, before, after), listener.virtualServices);
}

function seenThrough(
  entry: VirtualServiceChange['after'],
  plan: ListenerPlan,
  namespace: string,
): ResolvedVirtualService | undefined {
  const seen = entry === undefined || !isForMesh(entry) ? undefined : seenFrom(entry, namespace);
  return seen !== undefined && importsVirtualService(plan, seen) ? seen : undefined;
}

/** The services of all listeners and those that are routed to; adds the hosts that differ to `changed`. */
function nextUnion(
  built: BuiltScope,
  egress: readonly EgressListener[],
  routed: readonly string[],
  state: MeshState,
  touched: ReadonlySet<string>,
  changed: Set<string>,
): Scope['services'] {
  const { scope, plan } = built;
  const routedSet = new Set(routed);
  const candidates = new Set(touched);
  if (routed !== built.routed) for (const host of [...built.routed, ...routed]) candidates.add(host);
  const edits: [string, Service | undefined][] = [];
  const [only] = egress.length === 1 ? egress : [];
  let shares = routed.length === 0 || scope.services === scope.egress[0]?.services;
  for (const host of candidates) {
    const service = scopeService(state, plan.namespace, egress, routedSet, host);
    if (service !== only?.services.get(host)) shares = false;
    if (service === scope.services.get(host)) continue;
    edits.push([host, service]);
    changed.add(host);
  }
  return only !== undefined && shares ? only.services : scope.services.with(edits);
}
