/**
 * Which proxy has which configuration (CTL_ENABLE_CONFIG_DISTRIBUTION_TRACKING): nonces carry the snapshot version that
 * a response was made from, so that what a proxy has acknowledged, type by type, is a version; what is kept here says
 * which content a resource had at it. Old versions are known for CTL_DISTRIBUTION_HISTORY_RETENTION.
 */
import { XDS_TYPES, type XdsType } from '../generate/types.ts';
import type { ConnectionStatus } from '../push/types.ts';
import type { ResourceChange, ResourceKey } from '../resources/index.ts';

/** Changes remembered at most; the oldest go first, whatever the retention says. */
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

/** What one proxy has of a resource. */
export interface ProxyDistribution {
  readonly proxy: string;
  readonly connectionId: string;
  /**
   * For each type that the proxy asks for: the fingerprint of the resource that what it has acknowledged was made from.
   * '' where there was no such resource then, or nothing is acknowledged; null where that is so long ago that it is not
   * known any more.
   */
  readonly versions: Readonly<Partial<Record<XdsType, string | null>>>;
  /** True when that is the resource as it is now, in each type. */
  readonly upToDate: boolean;
}

export interface DistributionQuestion {
  readonly key: ResourceKey;
  /** Fingerprint of the resource as it is now; undefined: there is none. */
  readonly current: string | undefined;
  readonly connections: readonly ConnectionStatus[];
  /** Snapshot version that what a connection should have is made from. */
  readonly versionOf: (connectionId: string) => number;
  /** Wall clock, ms. */
  readonly now: number;
}

export class DistributionHistory {
  readonly #retentionMs: number;
  /** In order of version. */
  readonly #changes: Change[] = [];
  /** Changes up to this version may have been forgotten. */
  #forgotten = 0;

  constructor(retentionMs: number) {
    this.#retentionMs = retentionMs;
  }

  note(version: number, changes: readonly ResourceChange[], at: number): void {
    for (const { key, before, after } of changes) {
      const [old, next] = [before?.fingerprint ?? NOTHING, after?.fingerprint ?? NOTHING];
      this.#changes.push({ key, version, at, before: old, after: next });
    }
    this.#forget(at);
  }

  /** Which of the proxies have the resource in which version; undefined when nothing is known of such a resource. */
  where({ key, current, connections, versionOf, now }: DistributionQuestion): ProxyDistribution[] | undefined {
    this.#forget(now);
    const changes = this.#changes.filter((change) => change.key === key);
    if (current === undefined && changes.length === 0) return undefined;
    const newest = current ?? NOTHING;
    return connections.map(({ connectionId, node, types }) => {
      const versions = new Map<XdsType, string | null>();
      for (const type of XDS_TYPES) {
        const status = types.get(type);
        if (status === undefined || status.subscribed === 'none') continue;
        // Who has all of what it should have has the newest, whichever version it was last sent something of.
        const version = status.current ? versionOf(connectionId) : status.versionHeld;
        versions.set(type, version === 0 ? NOTHING : this.#at(version, changes, newest));
      }
      const upToDate = [...versions.values()].every((version) => version === newest);
      return { proxy: node.workload, connectionId, versions: Object.fromEntries(versions), upToDate };
    });
  }

  /**
   * The fingerprint of a resource at a snapshot version, given its changes and what it is now; null when that is not
   * known.
   */
  #at(version: number, changes: readonly Change[], newest: string): string | null {
    const last = changes.findLast((change) => change.version <= version);
    if (last !== undefined) return last.after;
    if (version < this.#forgotten) return null;
    return changes[0]?.before ?? newest;
  }

  #forget(now: number): void {
    const oldest = now - this.#retentionMs;
    const surplus = this.#changes.length - MAX_CHANGES;
    let gone = 0;
    while (gone < surplus || (this.#changes[gone]?.at ?? oldest) < oldest) gone++;
    this.#forgotten = Math.max(this.#forgotten, this.#changes[gone - 1]?.version ?? 0);
    this.#changes.splice(0, gone);
  }
}
