/**
 * Which proxy has which configuration (CTL_ENABLE_CONFIG_DISTRIBUTION_TRACKING): nonces carry the snapshot version that a response
 * was made from; what is kept here says which resources changed with which version, so that an acknowledged nonce tells whether a
 * proxy has a change. Kept for CTL_DISTRIBUTION_HISTORY_RETENTION; proxies of unchanged resources have them in any version.
 */
import { XDS_TYPES, type XdsType } from '../generate/types.ts';
import type { ConnectionStatus } from '../push/types.ts';
import type { ResourceChange, ResourceKey } from '../resources/types.ts';

/** Changes remembered at most; the oldest go first, whatever the retention says. */
const MAX_CHANGES = 100_000;

interface Change {
  readonly key: ResourceKey;
  readonly version: number;
  /** Wall clock, ms. */
  readonly at: number;
  /** Undefined: deleted. */
  readonly fingerprint: string | undefined;
}

/** One proxy's answer: per type the fingerprint of the resource as the proxy last acknowledged it. */
export interface ProxyDistribution {
  readonly proxy: string;
  readonly connectionId: string;
  readonly versions: Readonly<Partial<Record<XdsType, string>>>;
  /** True when no change is on the way to the proxy. */
  readonly upToDate: boolean;
}

export class DistributionHistory {
  readonly #retentionMs: number;
  /** In order of version. */
  readonly #changes: Change[] = [];

  constructor(retentionMs: number) {
    this.#retentionMs = retentionMs;
  }

  note(version: number, changes: readonly ResourceChange[], at: number): void {
    for (const { key, after } of changes) this.#changes.push({ key, version, at, fingerprint: after?.fingerprint });
    const oldest = at - this.#retentionMs;
    const surplus = this.#changes.length - MAX_CHANGES;
    let gone = 0;
    while (gone < surplus || (this.#changes[gone]?.at ?? oldest) < oldest) gone++;
    this.#changes.splice(0, gone);
  }

  /** Where the resource, whose fingerprint is now `current`, has arrived. */
  where(
    key: ResourceKey,
    current: string,
    connections: readonly ConnectionStatus[],
    settled: (connectionId: string) => boolean,
  ): ProxyDistribution[] {
    const changes = this.#changes.filter((change) => change.key === key);
    return connections.map((connection) => {
      const watched = XDS_TYPES.flatMap((type) => {
        const status = connection.types.get(type);
        return status === undefined || status.subscribed === 'none' ? [] : [{ type, acked: status.versionAcked }];
      });
      // A proxy for which nothing is on the way has the newest, whichever version it was last sent something of.
      const upToDate = settled(connection.connectionId);
      const versions = watched.map(
        ({ type, acked }) => [type, upToDate ? current : fingerprintAt(changes, acked, current)] as const,
      );
      return {
        proxy: connection.node.workload,
        connectionId: connection.connectionId,
        versions: Object.fromEntries(versions),
        upToDate,
      };
    });
  }
}

/** The fingerprint that a resource had at a snapshot version; '' when it did not exist or that is no longer known. */
function fingerprintAt(changes: readonly Change[], version: number, current: string): string {
  if (changes.length === 0) return current;
  const change = changes.findLast((candidate) => candidate.version <= version);
  return change?.fingerprint ?? '';
}
