/** The state of the program that debug pages read. The program implements it. */
import type { AnalysisInput } from '../analysis/index.ts';
import type { XdsType } from '../core/xds-types.ts';
import type { GenerationFinding } from '../generate/index.ts';
import type { Snapshot } from '../model/index.ts';
import type { RecentEvent, RecentPush, RecentSeries } from '../observe/index.ts';
import type { Previews } from '../preview/index.ts';
import type {
  Bundle,
  ConnectionStatus,
  EarlierContents,
  FailingView,
  ReadUnits,
  Reason,
  WithheldOfView,
} from '../push/index.ts';
import type { MeshConfig, ResourceKey, ResourceProblem, ResourceWarning } from '../resources/index.ts';
import type { SourceHealth, SourceIdentity } from '../sources/index.ts';
import type { SourceDocument } from '../store/index.ts';
import type { HeldContent } from '../xds/index.ts';
import type { ProxyRow } from './shapes.ts';

/** A refused document of a security kind. */
export interface RefusedPolicy {
  readonly problem: ResourceProblem;
  /** Keys of the resources that are in force instead. */
  readonly keys: readonly string[];
  readonly inForce: 'last_good' | 'substitute';
}

export interface SourceStatus extends SourceIdentity {
  /** Whether the source has been read once. */
  readonly synced: boolean;
  readonly health: SourceHealth;
}

/** A task that one replica does for all, such as writing statuses. */
export interface LeaderStatus {
  readonly task: string;
  /** The Lease by which its leader is elected, `namespace/name`. */
  readonly lease: string;
  /** Whether this replica leads the task now. */
  readonly leading: boolean;
  /** The replica that leads, as far as this one has seen; undefined when there is none. */
  readonly holder: string | undefined;
}

/** A certificate of the control plane. */
export interface CertificateStatus {
  readonly name: string;
  /** Unix ms. */
  readonly expires: number;
  /** The time before its end, ms, by which it should have been renewed. */
  readonly renewMs: number;
}

/** What pages that are read over and over show, at little cost. */
export interface Recent {
  /** Every proxy, by name; computed in steps. */
  readonly proxies: { rows(): Generator<void, readonly ProxyRow[]> };
  /** The newest first. */
  pushes(): readonly RecentPush[];
  series(): RecentSeries;
  /** Log lines after this number, the newest first. */
  events(since: number): readonly RecentEvent[];
  certificates(): readonly CertificateStatus[];
  /** What proxies should have had some minutes ago. */
  readonly contents: Pick<EarlierContents, 'moments' | 'parts'>;
}

export interface DebugSource {
  /** The mesh configuration in force. */
  mesh(): MeshConfig;
  /** What the user has written about injection; empty: nothing, or no webhooks are served. */
  injection(): { readonly config?: string; readonly values?: string };
  /** Name of this replica: of its Pod, else of its machine. */
  readonly replica: string;
  /** In configured order. Where several have a document of one key, the document of the first is in force. */
  sources(): readonly SourceStatus[];
  /** Empty when no cluster is read. */
  leadership(): readonly LeaderStatus[];
  /** All documents of a key, first the one in force. */
  documents(key: ResourceKey): readonly SourceDocument[];
  /** The warnings about a document in force that depend on other documents. */
  warningsOf(key: ResourceKey): readonly ResourceWarning[];
  /** Keys with documents of several sources. */
  sharedKeys(): Iterable<ResourceKey>;
  snapshot(): Snapshot;
  /** Live streams, in order of connection. */
  connections(): readonly ConnectionStatus[];
  /** The resources that a connection may have; empty for an unknown connection. */
  parts(connectionId: string, type: XdsType): readonly Bundle[];
  /** What a proxy on demand holds of these; undefined for one that gets everything. Absent: no proxy has to ask. */
  held?(connectionId: string): HeldContent | undefined;
  /**
   * Whether a cluster, or the virtual host for a name `<route configuration>/<host>`, is generated when a proxy of its
   * view needs it. Absent: all are generated.
   */
  isLater?(connectionId: string, type: 'cds' | 'vhds', name: string): boolean;
  /** Refused documents. */
  problems(): readonly ResourceProblem[];
  /** Refused documents of the security kinds, and what is in force instead. */
  refusedPolicies(): readonly RefusedPolicy[];
  /** Findings of generation in the views of these namespaces; default all. */
  findings(wanted?: (namespace: string) => boolean): readonly GenerationFinding[];
  /** What analysis reads. */
  analysisInput(): AnalysisInput;
  /** Sizes of the engine's parts: queued and running pushes, views, interned resources. */
  engine(): Readonly<Record<string, number>>;
  /** Views that cannot be generated now, and when the next attempt is. */
  failing(): readonly FailingView[];
  /** Resources that Envoy rejected and that are withheld from the proxies of a view. */
  withheld(): readonly WithheldOfView[];
  /**
   * Which version of a resource these proxies have, by its key `Kind/namespace/name`; undefined for an unknown
   * resource. Absent when distribution is not tracked.
   */
  distribution?(key: string, connections: readonly ConnectionStatus[]): readonly object[] | undefined;
  /** What a resource of a connection was generated from. */
  reasonsFor(connectionId: string, name: string): readonly Reason[];
  /** By connection id: the units of its configuration that read a document. */
  readersOf(document: ResourceKey): ReadonlyMap<string, readonly ReadUnits[]>;
  /** What happened in the last minutes. Absent when nothing is kept. */
  readonly recent?: Recent;
  /** Compares the mesh with that which a change would make. Absent while configuration is being read. */
  readonly previews?: Pick<Previews, 'run'>;
  /** CTL_DEBUG_ADSZ_CONFIG */
  readonly showConfigInAdsz: boolean;
}
