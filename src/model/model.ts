/**
 * The model: the current snapshot, and the acquired scopes, which are kept up to date. Other scopes can be read, but
 * their changes are not reported. The main thread has a `Model`, a worker a `MeshModel`.
 */
import { Memos } from '../core/memo.ts';
import { finish, type Slices } from '../core/slices.ts';
import type {
  AnyResource,
  MeshConfig,
  MeshNetworks,
  MeshUpdate,
  ResourceChange,
  ResourceKey,
} from '../resources/index.ts';
import { kindOfKey } from './common/tables.ts';
import { updateMesh } from './mesh.ts';
import { updatePolicies } from './policies/workload-policies.ts';
import { updateRegistry } from './registry/registry.ts';
import { emptyRegistry, type State } from './registry/state.ts';
import { emptyMesh, type MeshState } from './rules/mesh-state.ts';
import { EMPTY_SCOPE_INDEX, type ScopeIndex } from './scopes/scope-index.ts';
import { MeshScopes } from './scopes/scope-source.ts';
import { EVERYTHING } from './scopes/scope-update.ts';
import { meshSnapshot, wholeSnapshot } from './snapshot.ts';
import {
  type ChangeSet,
  isConfigKind,
  type MeshDelta,
  type MeshSnapshot,
  type ModelSettings,
  type ScopeChange,
  type Snapshot,
} from './types/types.ts';

/** The result of an update: the next snapshot, and its differences from the previous one. */
export interface ModelChange {
  readonly snapshot: Snapshot;
  readonly changes: ChangeSet;
  /** The same, as an update for the workers' mesh copies. */
  readonly delta: MeshDelta;
  /** The resource changes behind it. */
  readonly resources: readonly ResourceChange[];
  /** Of the earliest event behind it, monotonic ms. */
  readonly eventTime: number;
}

export interface ModelOptions {
  /** Keeps results of the model and of generation. */
  readonly memos?: Memos;
}

/** How often each scope is acquired. */
class ReferenceCounts {
  readonly #counts: Map<string, number>;

  constructor(counts: ReadonlyMap<string, number> = new Map()) {
    this.#counts = new Map(counts);
  }

  has(id: string): boolean {
    return this.#counts.has(id);
  }

  add(id: string): void {
    this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
  }

  ids(): Iterable<string> {
    return this.#counts.keys();
  }

  /** Removes a reference. Returns true if it was the last one. */
  remove(id: string): boolean {
    const count = this.#counts.get(id);
    if (count === undefined) return false;
    if (count > 1) this.#counts.set(id, count - 1);
    else this.#counts.delete(id);
    return count === 1;
  }

  copy(): ReferenceCounts {
    return new ReferenceCounts(this.#counts);
  }
}

/** The current snapshot and its scopes. */
interface Current<S extends MeshSnapshot> {
  readonly snapshot: S;
  readonly scopes: MeshScopes;
}

/** A model with scopes that can be acquired. */
abstract class ScopedModel<S extends MeshSnapshot> {
  protected current: Current<S>;
  protected readonly references: ReferenceCounts;

  protected constructor(current: Current<S>, holders: ReferenceCounts) {
    this.current = current;
    this.references = holders;
  }

  get snapshot(): S {
    return this.current.snapshot;
  }

  /**
   * Keeps the scope of this ID up to date: later updates report its changes. Each acquisition must be released. A scope
   * may be acquired before its Sidecar exists.
   */
  acquire(id: string): void {
    if (!this.references.has(id)) this.current.scopes.keep(id);
    this.references.add(id);
  }

  /** Returns true if the scope is no longer acquired and no longer kept up to date. */
  release(id: string): boolean {
    const last = this.references.remove(id);
    if (last) this.current.scopes.drop(id);
    return last;
  }

  /** Number of scopes that are kept up to date. */
  get scopes(): number {
    return this.current.scopes.scopeIndex.built.size;
  }
}

/** The model in a worker: what generation sees. */
export class MeshModel extends ScopedModel<MeshSnapshot> {
  #state: MeshState;

  private constructor(state: MeshState, scopeIndex: ScopeIndex, holders: ReferenceCounts) {
    super(currentOf(state, scopeIndex), holders);
    this.#state = state;
  }

  static empty(
    settings: ModelSettings,
    mesh: MeshConfig,
    networks: MeshNetworks,
    { memos = new Memos() }: ModelOptions = {},
  ): MeshModel {
    return new MeshModel(emptyMesh(settings, mesh, networks, memos), EMPTY_SCOPE_INDEX, new ReferenceCounts());
  }

  /** A copy of this model, to try changes on. Cheap: the two share all data. */
  fork(): MeshModel {
    return new MeshModel(this.#state, this.current.scopes.scopeIndex, this.references.copy());
  }

  /** Makes the next snapshot. If it throws an error, nothing has changed. */
  apply(delta: MeshDelta): void {
    const step = finish(updateMesh(this.#state, this.current.scopes.scopeIndex, delta));
    this.current = currentOf(step.state, step.scopeIndex);
    this.#state = step.state;
  }
}

function currentOf(state: MeshState, scopeIndex: ScopeIndex): Current<MeshSnapshot> {
  const scopes = new MeshScopes(state, scopeIndex);
  return { snapshot: meshSnapshot(state, scopes), scopes };
}

interface States {
  readonly registry: State;
  readonly mesh: MeshState;
}

/** The model on the main thread: registry and mesh. */
export class Model extends ScopedModel<Snapshot> {
  #states: States;

  private constructor(states: States, scopeIndex: ScopeIndex, holders: ReferenceCounts) {
    super(currentWhole(states, scopeIndex), holders);
    this.#states = states;
  }

  /** An empty model, version 1. */
  static empty(
    settings: ModelSettings,
    mesh: MeshConfig,
    networks: MeshNetworks,
    { memos = new Memos() }: ModelOptions = {},
  ): Model {
    const registry = emptyRegistry(settings, mesh, networks, memos);
    const networkGateways = registry.networkGateways.gateways;
    const states = { registry, mesh: { ...emptyMesh(settings, mesh, networks, memos), networkGateways } };
    return new Model(states, EMPTY_SCOPE_INDEX, new ReferenceCounts());
  }

  /** A copy of this model, to try changes on. Cheap: the two share all data. */
  fork(): Model {
    return new Model(this.#states, this.current.scopes.scopeIndex, this.references.copy());
  }

  /**
   * Makes the next snapshot and reports the differences. The cost follows the size of the change; equal values stay the
   * same objects. The value before a change is always that of the current snapshot. If it throws an error, nothing has
   * changed.
   *
   * @param version of the next snapshot
   */
  apply(update: MeshUpdate, version?: number): ModelChange {
    return finish(this.applyInSlices(update, version));
  }

  /**
   * The same, yielding wherever other work may run in between. The current snapshot stays what it is until the end. To
   * be finished before the next update begins.
   */
  *applyInSlices(update: MeshUpdate, version = this.#states.mesh.version + 1): Slices<ModelChange> {
    const { scopeIndex } = this.current.scopes;
    const before = this.#states;
    const resources = new Map<ResourceKey, AnyResource | undefined>();
    const configs = new Map<ResourceKey, AnyResource | undefined>();
    for (const { key, after } of update.changes)
      (isConfigKind(after?.kind ?? kindOfKey(key)) ? configs : resources).set(key, after);
    const registry = yield* updateRegistry(before.registry, resources, update);
    const delta: MeshDelta = { version, ...registry.derived, configs };
    yield;
    const step = yield* updateMesh(before.mesh, scopeIndex, delta);
    const policies = updatePolicies(registry.state, step.changes.configs);
    yield;
    const states = { registry: { ...registry.state, policies: policies.policies }, mesh: step.state };
    const next = currentWhole(states, step.scopeIndex);
    const scopes =
      this.current.scopes.scopeIndex === scopeIndex
        ? step.changes.scopes
        : new Map([...step.changes.scopes, ...this.#acquiredMeanwhile(next.scopes)]);
    this.current = next;
    this.#states = states;
    return {
      snapshot: this.current.snapshot,
      delta,
      resources: update.changes,
      eventTime: update.eventTime,
      changes: {
        ...step.changes,
        scopes,
        ...registry.changes,
        peers: new Set(delta.peers.keys()),
        policies: policies.change,
        configs: joined(step.changes.configs, registry.changes.configs),
        nameConflicts: [...registry.changes.nameConflicts, ...step.changes.nameConflicts],
      },
    };
  }

  /** Keeps the scopes that were acquired between slices, which may differ in everything, and drops the released ones. */
  *#acquiredMeanwhile(scopes: MeshScopes): Iterable<[string, ScopeChange]> {
    const { built, absent } = scopes.scopeIndex;
    for (const id of [...built.keys(), ...absent]) if (!this.references.has(id)) scopes.drop(id);
    for (const id of this.references.ids()) {
      if (built.has(id) || absent.has(id)) continue;
      scopes.keep(id);
      yield [id, EVERYTHING];
    }
  }
}

function currentWhole({ registry, mesh }: States, scopeIndex: ScopeIndex): Current<Snapshot> {
  const scopes = new MeshScopes(mesh, scopeIndex);
  return { snapshot: wholeSnapshot(registry, mesh, scopes), scopes };
}

function joined(a: ChangeSet['configs'], b: ChangeSet['configs']): ChangeSet['configs'] {
  return b.size === 0 ? a : new Map([...a, ...b]);
}
