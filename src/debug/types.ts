/** What the debug interface shows and where it gets it from. Filled in by the program; nothing here is held on to. */
import type { GenerationFinding, XdsType } from '../generate/types.ts';
import type { Snapshot } from '../model/index.ts';
import type { ReadUnits, Reason } from '../push/index.ts';
import type { Bundle, ConnectionStatus, FailingView } from '../push/types.ts';
import type { ResourceKey, ResourceProblem } from '../resources/index.ts';
import type { SourceHealth, SourceIdentity } from '../sources/index.ts';
import type { SourceDocument } from '../store/index.ts';

/** A refused document of a security kind. */
export interface RefusedPolicy {
  readonly problem: ResourceProblem;
  /** Keys of the resources in force instead. */
  readonly keys: readonly string[];
  readonly inForce: 'last_good' | 'substitute';
}

export interface SourceStatus extends SourceIdentity {
  /** Whether all that it had at start has been read. */
  readonly synced: boolean;
  readonly health: SourceHealth;
}

export interface DebugSource {
  /** In configured order: of several documents of a key, that of the first is in force. */
  sources(): readonly SourceStatus[];
  /** All documents of a key, the one in force first. */
  documents(key: ResourceKey): readonly SourceDocument[];
  /** Keys of which several sources have a document. */
  sharedKeys(): Iterable<ResourceKey>;
  snapshot(): Snapshot;
  /** Live streams, in order of connection. */
  connections(): readonly ConnectionStatus[];
  /** What a connection should have now; empty for an unknown connection. */
  parts(connectionId: string, type: XdsType): readonly Bundle[];
  /** Documents that could not be taken. */
  problems(): readonly ResourceProblem[];
  /** Refused documents of the security kinds, and what is in force in their place. */
  refusedPolicies(): readonly RefusedPolicy[];
  /** What generation found wrong, over the views of the namespaces that are asked for; left out: all. */
  findings(wanted?: (namespace: string) => boolean): readonly GenerationFinding[];
  /** Sizes of the engine's parts: queued and running pushes, views, interned resources. */
  engine(): Readonly<Record<string, number>>;
  /** Views that cannot be generated at present, and when they are tried again. */
  failing(): readonly FailingView[];
  /**
   * Which of these proxies have a resource in which version, by its key `Kind/namespace/name`; undefined for one that
   * nothing is known of. Left out when distribution is not tracked.
   */
  distribution?(key: string, connections: readonly ConnectionStatus[]): readonly object[] | undefined;
  /** What a connection's resource of this name is made of. */
  reasonsFor(connectionId: string, name: string): readonly Reason[];
  /** By connection: the units of its configuration that a document was read for. */
  readersOf(document: ResourceKey): ReadonlyMap<string, readonly ReadUnits[]>;
  /** CTL_DEBUG_ADSZ_CONFIG */
  readonly showConfigInAdsz: boolean;
}
