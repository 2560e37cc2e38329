/** Types that the parts of the registration of workloads share: streams, and the storage of WorkloadEntries. */
import type { ProxyNode } from '../../core/proxy.ts';
import type { Snapshot } from '../../model/index.ts';
import type { ResourceEvent } from '../../resources/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import type { Cluster } from '../clusters/cluster.ts';
import type { AdmittedEntry } from './admission.ts';

/** `origin.source` of WorkloadEntries that are kept in memory. */
export const REGISTRATION_SOURCE = 'registered workloads';

export type RegisteringNode = Pick<
  ProxyNode,
  'namespace' | 'identity' | 'addresses' | 'network' | 'locality' | 'serviceAccount'
> & { readonly workloadGroup: string };

/** A stream of a proxy that names a WorkloadGroup. */
export interface RegisteringStream {
  readonly node: RegisteringNode;
  /** Milliseconds since the epoch. */
  readonly connectedAt: number;
  /**
   * The last report about the health of the workload: '' if it is healthy, otherwise the reason; undefined if there is
   * none yet.
   */
  problem: string | undefined;
}

export interface RegistrationOptions {
  readonly settings: DiscoverySettings;
  /** Where WorkloadEntries are stored, if the configuration is read from there. */
  readonly cluster: Cluster | undefined;
  /** Takes WorkloadEntries that are kept in memory. */
  readonly apply: (event: ResourceEvent) => void;
  /** The newest that was published. */
  readonly snapshot: () => Snapshot;
  /** Aborts when the program is about to end its streams. */
  readonly stopping: AbortSignal;
}

/** The storage of the WorkloadEntries of this replica's workloads. */
export interface EntryStorage {
  /**
   * Writes the entry of a connected workload.
   * @param connectedAt of its newest stream, milliseconds since the epoch
   * @param problem why it is unhealthy, '' when it is healthy; undefined: it has not reported, or is not probed
   * @param isNews whether this replica has written a different health before: then it is written even if the workload
   * has connected to another replica since. The streams of one machine may go to two replicas, and only one of them
   * receives its reports.
   * @throws CtlError already_exists when somebody else has written an entry of this name
   */
  connected(entry: AdmittedEntry, connectedAt: number, problem: string | undefined, isNews: boolean): Promise<void>;
  /** Notes that the workload has disconnected, unless it is connected to another replica. */
  disconnected(entry: AdmittedEntry, at: number): Promise<void>;
  /** Deletes the entry, unless the workload is connected to another replica. */
  remove(entry: AdmittedEntry): Promise<void>;
  close(): Promise<void>;
}

/**
 * Entries are written again after at most this time, so that a leader can tell them from those of a replica that was
 * killed together with its workloads. See `STALE_MS` in `entries-cluster.ts`.
 */
export const REFRESH_MS = 900_000;

/** Annotation: when a workload disconnected from the replica that had registered it last. */
export const DISCONNECTED_AT = 'mesh.io/disconnectedAt';
