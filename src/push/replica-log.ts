/**
 * What workers have to be told to catch up: the updates between snapshot versions, kept until every worker has them, and the whole
 * of the inputs for a worker that starts anew.
 */
import type { ReplicaUpdate } from '../../workers/protocol.ts';
import type { Snapshot } from '../model/types.ts';
import { type AnyResource, CORE_KINDS, MESH_KINDS, type ResourceChange, type ResourceKey } from '../resources/types.ts';

/** Entries kept for workers that lag; one that lags further is told everything, which costs less than a longer log. */
const MAX_ENTRIES = 256;

interface Entry {
  readonly from: number;
  readonly to: number;
  readonly changes: readonly ResourceChange[];
  readonly mesh: boolean;
}

/** Everything that a snapshot was built from. */
function everything(snapshot: Snapshot): ReplicaUpdate {
  const sets: AnyResource[] = [];
  for (const kind of [...CORE_KINDS, ...MESH_KINDS]) {
    for (const [, resource] of snapshot.resources(kind).sorted()) sets.push(resource as AnyResource);
  }
  const { mesh, networks, settings } = snapshot;
  return { fromVersion: 0, toVersion: snapshot.version, sets, deletes: [], mesh, networks, settings };
}

export class ReplicaLog {
  #entries: Entry[] = [];
  #snapshot: Snapshot;

  constructor(snapshot: Snapshot) {
    this.#snapshot = snapshot;
  }

  get version(): number {
    return this.#snapshot.version;
  }

  /** Notes the step from the last snapshot to this one. */
  append(snapshot: Snapshot, changes: readonly ResourceChange[]): void {
    const mesh = snapshot.mesh !== this.#snapshot.mesh || snapshot.networks !== this.#snapshot.networks;
    this.#entries.push({ from: this.#snapshot.version, to: snapshot.version, changes, mesh });
    if (this.#entries.length > MAX_ENTRIES) this.#entries.shift();
    this.#snapshot = snapshot;
  }

  /** Forgets what all workers have. */
  trim(oldestVersion: number): void {
    this.#entries = this.#entries.filter((entry) => entry.from >= oldestVersion);
  }

  /** The merged update for a worker that stands at `version`; everything when it has nothing or lags too far. */
  since(version: number): ReplicaUpdate {
    if (version === this.#snapshot.version) return { fromVersion: version, toVersion: version, sets: [], deletes: [] };
    const start = this.#entries.findIndex((entry) => entry.from === version);
    if (version === 0 || start < 0) return everything(this.#snapshot);
    const latest = new Map<ResourceKey, AnyResource | undefined>();
    let mesh = false;
    for (const entry of this.#entries.slice(start)) {
      mesh ||= entry.mesh;
      for (const change of entry.changes) latest.set(change.key, change.after);
    }
    const update = {
      fromVersion: version,
      toVersion: this.#snapshot.version,
      sets: [...latest.values()].filter((resource) => resource !== undefined),
      deletes: [...latest].filter(([, resource]) => resource === undefined).map(([key]) => key),
    };
    return mesh ? { ...update, mesh: this.#snapshot.mesh, networks: this.#snapshot.networks } : update;
  }
}
