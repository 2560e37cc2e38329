/**
 * The contract of a source: something outside the program that has resources, such as a directory, a cluster's API
 * server or a catalogue. A source tells a sink what it has and what of it changes; the store keeps the documents of
 * different sources apart and decides which of them is in force.
 *
 * - Events of one key are told in the order in which they happened; those of different keys in any order, and
 *   repeatedly.
 * - A source that loses its connection tells nothing: all that it told stays in force. When it is back, it goes on with
 *   what changed meanwhile (`apply`), or lists everything (`replace`) where it cannot know that, kind by kind if it
 *   likes.
 * - A list that comes in pages is told when its last page has come. One that breaks off is not told: what it lacks
 *   would be deleted.
 * - A document that cannot be taken is a problem, and never a deletion of the version before.
 */
import type { ResourceEvent, ResourceList } from '../resources/index.ts';

/** What tells sources apart, in configuration, pages, metrics and messages. */
export interface SourceIdentity {
  /** Unique among the sources of a program; `origin.source` of all its resources and problems. */
  readonly id: string;
  /** The cluster that its resources of CLUSTER_KINDS are of, as `--clusterID` names clusters. */
  readonly cluster: string;
}

/** Whether a source is in touch with what it reads. `reason`: one line for people. */
export type SourceHealth = { readonly ok: true } | { readonly ok: false; readonly reason: string };

export interface Source extends SourceIdentity {
  /** Begins to tell `sink`, which is not called before. Called once. */
  start(sink: SourceSink): void;
  /**
   * Resolves when the sink has been told all that there was at start, however long that takes. Rejects with CtlError
   * when something that is there cannot be read at start; the source is of no use then.
   */
  readonly synced: Promise<void>;
  /** The state as it is now. A source logs it once when it becomes bad, and once when it is good again. */
  health(): SourceHealth;
  /** Ends all reading; the sink is not called after it has resolved. */
  close(): Promise<void>;
}

/**
 * Takes what a source tells. `seenAt`: monotonic ms of the last sign of a change there, when the source knows that it
 * was quiet since.
 */
export interface SourceSink {
  /** Changes. */
  apply(events: readonly ResourceEvent[], seenAt?: number): void;
  /**
   * All that the source has, or all of what the list says it is of: resources and problems that are not in it are gone.
   */
  replace(list: ResourceList, seenAt?: number): void;
  /** Something is changing, at `at` in monotonic ms; what it is comes later, if anything. */
  changing(at: number): void;
}
