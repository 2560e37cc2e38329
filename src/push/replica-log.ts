/**
 * What workers have to be told to catch up: the resources changed since the snapshot version that a worker stands at, each in its
 * newest form, and the whole of the inputs for a worker that starts anew. Kept by resource, not by update, so that a
 * worker may lag behind thousands of endpoint changes, for which it is never asked, and still catch up cheaply.
 */
import type { ReplicaUpdate } from '../../workers/protocol.ts';
import type { Snapshot } from '../model/types.ts';
import { ALL_KINDS, type AnyResource, type ResourceChange, type ResourceKey } from '../resources/types.ts';

/** Changed resources remembered; a worker that lags behind more is told everything, which then costs little more. */
const MAX_CHANGED = 8192;

interface Changed {
  readonly version: number;
  readonly after: AnyResource | undefined;
}

/** Everything that a snapshot was built from. */
function everything(snapshot: Snapshot): ReplicaUpdate {
  const sets: AnyResource[] = [];
  for (const kind of ALL_KINDS) {
    for (const [, resource] of snapshot.resources(kind).sorted()) sets.push(resource as AnyResource);
  }
  const { mesh, networks, settings } = snapshot;
  return { fromVersion: 0, toVersion: snapshot.version, sets, deletes: [], mesh, networks, settings };
}

export class ReplicaLog {
  /** In order of version: a resource that changes again moves to the end. */
  readonly #changed = new Map<ResourceKey, Changed>();
  /** Older versions are no longer known. */
  #oldest: number;
  /** Of the last change of mesh configuration or networks. */
  #meshVersion: number;
  #snapshot: Snapshot;

  constructor(snapshot: Snapshot) {
    this.#snapshot = snapshot;
    this.#oldest = snapshot.version;
    this.#meshVersion = snapshot.version;
  }

  /** Changed resources that are remembered. */
  get size(): number {
    return this.#changed.size;
  }

  /** Notes the step from the last snapshot to this one. */
  append(snapshot: Snapshot, changes: readonly ResourceChange[]): void {
    const { version, mesh, networks } = snapshot;
    if (mesh !== this.#snapshot.mesh || networks !== this.#snapshot.networks) this.#meshVersion = version;
    for (const { key, after } of changes) {
      this.#changed.delete(key);
      this.#changed.set(key, { version, after });
    }
    this.#snapshot = snapshot;
    if (this.#changed.size <= MAX_CHANGED) return;
    for (const [key, { version: last }] of this.#changed) {
      // A version goes as a whole: half of it would be no snapshot.
      if (this.#changed.size <= MAX_CHANGED && last > this.#oldest) break;
      this.#changed.delete(key);
      this.#oldest = last;
    }
  }

  /** Forgets what all workers have that stand at `oldestVersion` or later. */
  trim(oldestVersion: number): void {
    for (const [key, { version }] of this.#changed) {
      if (version > oldestVersion) break;
      this.#changed.delete(key);
    }
    this.#oldest = Math.max(this.#oldest, oldestVersion);
  }

  /** The merged update for a worker that stands at `version`; everything when it has nothing or lags too far. */
  since(version: number): ReplicaUpdate {
    const { version: current, mesh, networks } = this.#snapshot;
    if (version === 0 || version < this.#oldest || version > current) return everything(this.#snapshot);
    const sets: AnyResource[] = [];
    const deletes: ResourceKey[] = [];
    if (version < current) {
      for (const [key, { version: last, after }] of this.#changed) {
        if (last <= version) continue;
        if (after === undefined) deletes.push(key);
        else sets.push(after);
      }
    }
    const update = { fromVersion: version, toVersion: current, sets, deletes };
    return this.#meshVersion > version ? { ...update, mesh, networks } : update;
  }
}
