/**
 * The model with its owner: the current snapshot, and the scopes that are kept up to date because somebody has acquired
 * them. Others may be asked for as well, but nobody is told how they change. The main thread has a `Model`, a worker a
 * `MeshModel`.
 */
import { Memos } from '../core/memo.ts';
import type { AnyResource, MeshConfig, MeshNetworks, ResourceChange, ResourceKey } from '../resources/index.ts';
import { updateMesh } from './mesh.ts';
import { emptyMesh, type MeshState } from './mesh-state.ts';
import { updateRegistry } from './registry.ts';
import { EMPTY_BOOK, type ScopeIndex } from './scope-index.ts';
import { MeshScopes } from './scope-source.ts';
import { meshSnapshot, wholeSnapshot } from './snapshot.ts';
import { emptyRegistry, type State } from './state.ts';
import { kindOfKey } from './tables.ts';
import {
  type ChangeSet,
  isConfigKind,
  type MeshDelta,
  type MeshSnapshot,
  type ModelSettings,
  type Snapshot,
} from './types.ts';
import { updatePolicies } from './workload-policies.ts';

export interface ModelUpdate {
  /** Several changes of one key are taken in order; what counts as "before" is what the current snapshot holds. */
  readonly changes: Iterable<ResourceChange>;
  readonly mesh?: MeshConfig;
  readonly networks?: MeshNetworks;
  /** Of the next snapshot; one more than the current when absent. */
  readonly version?: number;
}

export interface ModelStep {
  readonly snapshot: Snapshot;
  readonly changes: ChangeSet;
  /** What the workers have to be told. */
  readonly delta: MeshDelta;
}

export interface ModelOptions {
  /** Where the model and what is generated from it remember results. */
  readonly memos?: Memos;
}

/** Who acquires scopes, and how often. */
class Holders {
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

  /** True when that was the last. */
  remove(id: string): boolean {
    const count = this.#counts.get(id);
    if (count === undefined) return false;
    if (count > 1) this.#counts.set(id, count - 1);
    else this.#counts.delete(id);
    return count === 1;
  }

  copy(): Holders {
    return new Holders(this.#counts);
  }
}

/** What a model knows beside its current snapshot. */
interface Held<S extends MeshSnapshot> {
  readonly snapshot: S;
  readonly scopes: MeshScopes;
}

/** Scopes acquired of whatever the current state is. */
abstract class ScopeHolder<S extends MeshSnapshot> {
  protected current: Held<S>;
  protected readonly holders: Holders;

  protected constructor(current: Held<S>, holders: Holders) {
    this.current = current;
    this.holders = holders;
  }

  get snapshot(): S {
    return this.current.snapshot;
  }

  /**
   * Has the scope of this id kept up to date: later steps say how it differs. To be released as often as it is
   * acquired. A Sidecar's scope may be acquired while there is no such Sidecar.
   */
  acquire(id: string): void {
    if (!this.holders.has(id)) this.current.scopes.keep(id);
    this.holders.add(id);
  }

  /** True when nobody has acquired the scope any more: it is no longer kept up to date. */
  release(id: string): boolean {
    const last = this.holders.remove(id);
    if (last) this.current.scopes.drop(id);
    return last;
  }

  /** Number of scopes that are kept up to date. */
  get scopes(): number {
    return this.current.scopes.book.built.size;
  }
}

/** What generation sees, as a worker has it. */
export class MeshModel extends ScopeHolder<MeshSnapshot> {
  #state: MeshState;

  constructor(
    settings: ModelSettings,
    mesh: MeshConfig,
    networks: MeshNetworks,
    { memos = new Memos() }: ModelOptions = {},
  ) {
    const state = emptyMesh(settings, mesh, networks, memos);
    super(held(state, EMPTY_BOOK), new Holders());
    this.#state = state;
  }

  /** The next snapshot. What throws leaves everything as it is. */
  apply(delta: MeshDelta): void {
    const step = updateMesh(this.#state, this.current.scopes.book, delta);
    this.current = held(step.state, step.book);
    this.#state = step.state;
  }
}

function held(state: MeshState, book: ScopeIndex): Held<MeshSnapshot> {
  const scopes = new MeshScopes(state, book);
  return { snapshot: meshSnapshot(state, scopes), scopes };
}

interface States {
  readonly registry: State;
  readonly mesh: MeshState;
}

/** The whole, as the main thread has it. */
export class Model extends ScopeHolder<Snapshot> {
  #states: States;

  private constructor(states: States, book: ScopeIndex, holders: Holders) {
    super(heldWhole(states, book), holders);
    this.#states = states;
  }

  /** An empty one, version 1. */
  static empty(
    settings: ModelSettings,
    mesh: MeshConfig,
    networks: MeshNetworks,
    { memos = new Memos() }: ModelOptions = {},
  ): Model {
    const registry = emptyRegistry(settings, mesh, networks, memos);
    return new Model({ registry, mesh: emptyMesh(settings, mesh, networks, memos) }, EMPTY_BOOK, new Holders());
  }

  /** Another model that stands where this one does, to try something out. Costs next to nothing. */
  fork(): Model {
    return new Model(this.#states, this.current.scopes.book, this.holders.copy());
  }

  /**
   * The next snapshot and what differs in it. Costs what the change costs; whatever is equal stays the same object.
   * What throws leaves everything as it is.
   */
  apply({ changes, mesh, networks, version }: ModelUpdate): ModelStep {
    const before = this.#states;
    const resources = new Map<ResourceKey, AnyResource | undefined>();
    const configs = new Map<ResourceKey, AnyResource | undefined>();
    for (const { key, after } of changes)
      (isConfigKind(after?.kind ?? kindOfKey(key)) ? configs : resources).set(key, after);
    const registry = updateRegistry(before.registry, { resources, mesh, networks });
    const delta: MeshDelta = { version: version ?? before.mesh.version + 1, ...registry.derived, configs };
    const step = updateMesh(before.mesh, this.current.scopes.book, delta);
    const policies = updatePolicies(registry.state, step.changes.configs);
    const states = { registry: { ...registry.state, policies: policies.policies }, mesh: step.state };
    this.current = heldWhole(states, step.book);
    this.#states = states;
    return {
      snapshot: this.current.snapshot,
      delta,
      changes: {
        ...step.changes,
        ...registry.changes,
        peers: new Set(delta.peers.keys()),
        policies: policies.change,
        configs: joined(step.changes.configs, registry.changes.configs),
        nameConflicts: [...registry.changes.nameConflicts, ...step.changes.nameConflicts],
      },
    };
  }
}

function heldWhole({ registry, mesh }: States, book: ScopeIndex): Held<Snapshot> {
  const scopes = new MeshScopes(mesh, book);
  return { snapshot: wholeSnapshot(registry, mesh, scopes), scopes };
}

function joined(a: ChangeSet['configs'], b: ChangeSet['configs']): ChangeSet['configs'] {
  return b.size === 0 ? a : new Map([...a, ...b]);
}
