/**
 * From one snapshot to the next. The first stage makes the registry of the main thread, the second what generation sees, here as in the
 * workers, which are told what the first one made ({@link ModelStep.delta}).
 */
import { Memos } from '../core/memo.ts';
import type { MeshConfig, MeshNetworks } from '../resources/mesh-config.ts';
import { type AnyResource, keyOf, type ResourceChange, type ResourceKey } from '../resources/types.ts';
import { updateMesh } from './mesh.ts';
import { emptyMesh } from './mesh-state.ts';
import { updateRegistry } from './registry.ts';
import { EMPTY_BOOK } from './scope-book.ts';
import { internalsOf, makeMeshSnapshot, makeSnapshot, registryOf } from './snapshot.ts';
import { emptyRegistry } from './state.ts';
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
  /** Several changes of one key are taken in order; what counts as "before" is what the previous snapshot holds. */
  readonly changes: Iterable<ResourceChange>;
  readonly mesh?: MeshConfig;
  readonly networks?: MeshNetworks;
  /** Of the next snapshot; one more than the previous when absent. */
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

/** The empty snapshot, version 1. */
export function createModel(
  settings: ModelSettings,
  mesh: MeshConfig,
  networks: MeshNetworks,
  { memos = new Memos() }: ModelOptions = {},
): Snapshot {
  const registry = emptyRegistry(settings, mesh, networks, memos);
  return makeSnapshot(registry, emptyMesh(settings, mesh, networks, memos), EMPTY_BOOK);
}

/** All resources as one change of an empty snapshot. */
export function replay(empty: Snapshot, resources: Iterable<AnyResource>, version?: number): Snapshot {
  const changes = [...resources].map((after): ResourceChange => ({ key: keyOf(after), before: undefined, after }));
  return applyChanges(empty, { changes, ...(version === undefined ? {} : { version }) }).snapshot;
}

/** The next snapshot and what differs in it. Costs what the change costs; whatever is equal stays the same object. */
export function applyChanges(previous: Snapshot, { changes, mesh, networks, version }: ModelUpdate): ModelStep {
  const { mesh: meshBefore, book } = internalsOf(previous);
  const resources = new Map<ResourceKey, AnyResource | undefined>();
  const configs = new Map<ResourceKey, AnyResource | undefined>();
  for (const { key, after } of changes) (isConfigKind(kindOfKey(key)) ? configs : resources).set(key, after);
  const registry = updateRegistry(registryOf(previous), { resources, mesh, networks });
  const delta: MeshDelta = { version: version ?? meshBefore.version + 1, ...registry.derived, configs };
  const step = updateMesh(meshBefore, book, delta);
  const policies = updatePolicies(registry.state, step.changes.configs);
  return {
    snapshot: makeSnapshot({ ...registry.state, policies: policies.policies }, step.state, step.book),
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

function joined(a: ChangeSet['configs'], b: ChangeSet['configs']): ChangeSet['configs'] {
  return b.size === 0 ? a : new Map([...a, ...b]);
}

/** The mesh of a worker, which has nothing but what generation reads: empty, version 1. */
export function createMesh(
  settings: ModelSettings,
  mesh: MeshConfig,
  networks: MeshNetworks,
  { memos = new Memos() }: ModelOptions = {},
): MeshSnapshot {
  return makeMeshSnapshot(emptyMesh(settings, mesh, networks, memos), EMPTY_BOOK);
}

/** The next of a worker's snapshots. */
export function applyDelta(previous: MeshSnapshot, delta: MeshDelta): MeshSnapshot {
  const { mesh, book } = internalsOf(previous);
  const step = updateMesh(mesh, book, delta);
  return makeMeshSnapshot(step.state, step.book);
}
