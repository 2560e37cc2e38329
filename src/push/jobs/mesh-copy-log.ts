/**
 * The data for updating the mesh copies of workers: the newest values that changed since a worker's version, or
 * everything for a new worker. It is kept by name, not by update, so that a worker that was idle during thousands of
 * changes is updated cheaply.
 */
import type { PMap } from '../../core/pmap.ts';
import { CONFIG_KINDS, type ConfigKind, type MeshDelta, type MeshSnapshot } from '../../model/index.ts';
import type { AnyResource, ResourceKey } from '../../resources/index.ts';
import type { MeshCopyUpdate } from '../protocol.ts';

/** Changed values kept; a worker that is further behind is sent everything, which then costs little more. */
const MAX_CHANGED = 8192;

/** The parts of a delta that are maps of values by name. */
const PARTS = ['services', 'peers', 'endpoints', 'configs'] as const satisfies readonly (keyof MeshDelta)[];
type Part = (typeof PARTS)[number];

interface Changed {
  readonly version: number;
  readonly part: Part;
  readonly key: string;
  /** Undefined: gone. */
  readonly value: unknown;
}

type Values = { readonly [P in Part]: MeshDelta[P] };

function valuesOf(changed: Iterable<Changed>): Values {
  const values = Object.fromEntries(PARTS.map((part) => [part, new Map<string, unknown>()])) as Record<
    Part,
    Map<string, unknown>
  >;
  for (const { part, key, value } of changed) values[part].set(key, value);
  // Each value was taken from the same part of a delta under the same key.
  return values as unknown as Values;
}

function configsOf(snapshot: MeshSnapshot, kind: ConfigKind): Iterable<readonly [ResourceKey, AnyResource]> {
  return (snapshot.resources(kind) as unknown as PMap<AnyResource>).entries();
}

/** Everything that generation may read of a snapshot, as an update from nothing. */
function everything(snapshot: MeshSnapshot): MeshCopyUpdate {
  const { version, mesh, networks, workloadRanges, networkGateways, settings, services, peers, carriedEndpoints } =
    snapshot;
  return {
    fromVersion: 0,
    toVersion: version,
    services: new Map(services.entries()),
    peers: new Map(peers.entries()),
    endpoints: new Map(carriedEndpoints.entries()),
    configs: new Map(CONFIG_KINDS.flatMap((kind) => [...configsOf(snapshot, kind)])),
    mesh,
    networks,
    workloadRanges,
    networkGateways,
    settings,
  };
}

/** Number of values in {@link everything}. */
function sizeOf(snapshot: MeshSnapshot): number {
  const { services, peers, carriedEndpoints } = snapshot;
  const configs = CONFIG_KINDS.reduce((sum, kind) => sum + snapshot.resources(kind).size, 0);
  return services.size + peers.size + carriedEndpoints.size + configs;
}

export class MeshCopyLog {
  /** In order of version; a value that changes again moves to the end. */
  readonly #changed = new Map<string, Changed>();
  /** The oldest version that an update can start from. */
  #oldest: number;
  /** Version of the last change of mesh configuration or networks. */
  #meshVersion: number;
  /** Version of the last change of the workloads' address ranges. */
  #rangesVersion: number;
  /** Version of the last change of the gateways of networks. */
  #gatewaysVersion: number;
  #snapshot: MeshSnapshot;

  constructor(snapshot: MeshSnapshot) {
    this.#snapshot = snapshot;
    this.#oldest = snapshot.version;
    this.#meshVersion = snapshot.version;
    this.#rangesVersion = snapshot.version;
    this.#gatewaysVersion = snapshot.version;
  }

  /** Number of changed values kept. */
  get size(): number {
    return this.#changed.size;
  }

  /** Number of values in the update for a worker at `version`. */
  lacking(version: number): number {
    if (version === this.#snapshot.version) return 0;
    if (!this.#canUpdate(version)) return sizeOf(this.#snapshot);
    let count = 0;
    for (const each of this.#changed.values()) if (each.version > version) count++;
    return count;
  }

  #canUpdate(version: number): boolean {
    return version !== 0 && version >= this.#oldest && version <= this.#snapshot.version;
  }

  /** Appends the step from the last snapshot to this one. After a missed step, workers are sent everything. */
  append(snapshot: MeshSnapshot, delta: MeshDelta): void {
    const { version } = snapshot;
    if (version !== this.#snapshot.version + 1) {
      this.#changed.clear();
      this.#oldest = version;
      this.#meshVersion = version;
      this.#rangesVersion = version;
      this.#gatewaysVersion = version;
    }
    if (delta.mesh !== undefined || delta.networks !== undefined) this.#meshVersion = version;
    if (delta.workloadRanges !== undefined) this.#rangesVersion = version;
    if (delta.networkGateways !== undefined) this.#gatewaysVersion = version;
    for (const part of PARTS) {
      for (const [key, value] of delta[part]) {
        const id = `${part} ${key}`;
        this.#changed.delete(id);
        this.#changed.set(id, { version, part, key, value });
      }
    }
    this.#snapshot = snapshot;
    if (this.#changed.size <= MAX_CHANGED) return;
    for (const [id, { version: last }] of this.#changed) {
      // A version is dropped as a whole: half of it would not be a snapshot.
      if (this.#changed.size <= MAX_CHANGED && last > this.#oldest) break;
      this.#changed.delete(id);
      this.#oldest = last;
    }
  }

  /** Drops the values that workers at `oldestVersion` or later have. */
  trim(oldestVersion: number): void {
    for (const [id, { version }] of this.#changed) {
      if (version > oldestVersion) break;
      this.#changed.delete(id);
    }
    this.#oldest = Math.max(this.#oldest, oldestVersion);
  }

  /** The merged update for a worker at `version`; everything when that is 0 or too old. */
  since(version: number): MeshCopyUpdate {
    const { version: current, mesh, networks, workloadRanges, networkGateways } = this.#snapshot;
    if (!this.#canUpdate(version)) return everything(this.#snapshot);
    const changed = version === current ? [] : [...this.#changed.values()].filter((each) => each.version > version);
    return {
      fromVersion: version,
      toVersion: current,
      ...valuesOf(changed),
      ...(this.#meshVersion > version && { mesh, networks }),
      ...(this.#rangesVersion > version && { workloadRanges }),
      ...(this.#gatewaysVersion > version && { networkGateways }),
    };
  }
}
