/**
 * Which proxy has which version of a resource (CTL_ENABLE_CONFIG_DISTRIBUTION_TRACKING). A nonce contains the snapshot
 * version of its response, so each type of a proxy has an acknowledged snapshot version. This history maps a snapshot
 * version to the content of a resource, for the time CTL_DISTRIBUTION_HISTORY_RETENTION.
 */
import { XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import type { ConnectionStatus } from '../../push/index.ts';
import type { ResourceChange, ResourceKey } from '../../resources/index.ts';

/** The largest number of remembered changes. The oldest are dropped first, even before the retention time. */
const MAX_CHANGES = 100_000;

/** Fingerprint of a resource that did not exist. */
const NOTHING = '';

interface Change {
  readonly key: ResourceKey;
  readonly version: number;
  /** Wall clock, ms. */
  readonly at: number;
  /** Fingerprints; '' where the resource did not exist. */
  readonly before: string;
  readonly after: string;
}

/** The version of a resource that one proxy has. */
export interface ProxyDistribution {
  readonly proxy: string;
  readonly connectionId: string;
  /**
   * For each subscribed type: the fingerprint of the resource in the acknowledged snapshot version. '' when the
   * resource did not exist then or nothing is acknowledged; null when the version is too old to be known.
   */
  readonly versions: Readonly<Partial<Record<XdsType, string | null>>>;
  /** True when every type has the current version of the resource. */
  readonly upToDate: boolean;
}

export interface DistributionQuery {
  readonly key: ResourceKey;
  /** Current fingerprint of the resource; undefined when it does not exist. */
  readonly current: string | undefined;
  readonly connections: readonly ConnectionStatus[];
  /** Snapshot version of the configuration that a connection should have. */
  readonly versionOf: (connectionId: string) => number;
  /** Wall clock, ms. */
  readonly now: number;
}

export class DistributionHistory {
  readonly #retentionMs: number;
  /** The changes in the order of their versions. */
  readonly #changes: Change[] = [];
  /** Changes up to this version may be dropped. */
  #droppedVersion = 0;

  constructor(retentionMs: number) {
    this.#retentionMs = retentionMs;
  }

  note(version: number, changes: readonly ResourceChange[], at: number): void {
    for (const { key, before, after } of changes) {
      const [old, next] = [before?.fingerprint ?? NOTHING, after?.fingerprint ?? NOTHING];
      this.#changes.push({ key, version, at, before: old, after: next });
    }
    this.#dropOld(at);
  }

  /** The version of the resource in each proxy; undefined for an unknown resource. */
  where({ key, current, connections, versionOf, now }: DistributionQuery): ProxyDistribution[] | undefined {
    this.#dropOld(now);
    const changes = this.#changes.filter((change) => change.key === key);
    if (current === undefined && changes.length === 0) return undefined;
    const newest = current ?? NOTHING;
    return connections.map(({ connectionId, node, types }) => {
      const versions = new Map<XdsType, string | null>();
      for (const type of XDS_TYPES) {
        const status = types.get(type);
        if (status === undefined || status.subscribed === 'none') continue;
        // A proxy that is up to date has the current version, even when its last response is older.
        const version = status.current ? versionOf(connectionId) : status.versionComplete;
        versions.set(type, version === 0 ? NOTHING : this.#at(version, changes, newest));
      }
      const upToDate = [...versions.values()].every((version) => version === newest);
      return { proxy: node.workload, connectionId, versions: Object.fromEntries(versions), upToDate };
    });
  }

  /**
   * The fingerprint of a resource at a snapshot version, from its changes and its current fingerprint; null when it is
   * not known.
   */
  #at(version: number, changes: readonly Change[], newest: string): string | null {
    const last = changes.findLast((change) => change.version <= version);
    if (last !== undefined) return last.after;
    if (version < this.#droppedVersion) return null;
    return changes[0]?.before ?? newest;
  }

  #dropOld(now: number): void {
    const oldest = now - this.#retentionMs;
    const surplus = this.#changes.length - MAX_CHANGES;
    let dropped = 0;
    while (dropped < surplus || (this.#changes[dropped]?.at ?? oldest) < oldest) dropped++;
    this.#droppedVersion = Math.max(this.#droppedVersion, this.#changes[dropped - 1]?.version ?? 0);
    this.#changes.splice(0, dropped);
  }
}
