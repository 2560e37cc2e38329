/**
 * The contract of a source: something outside the program that has resources, such as a directory, a cluster's API
 * server or a catalogue. A source sends a sink its resources and their changes; the store keeps the documents of
 * different sources apart and decides which of them is in force.
 *
 * - Events of one key are sent in the order in which they happened; those of different keys in any order, and
 *   repeatedly.
 * - A source that loses its connection sends nothing: everything it sent stays in force. When it is back, it continues
 *   with the changes in between (`apply`), or lists everything (`replace`) if it does not know them, possibly kind by
 *   kind.
 * - A list in pages is sent after its last page. An incomplete one is not sent: documents missing from it would be
 *   deleted.
 * - A document that is refused is a problem, and never a deletion of the version before.
 */
import type { ResourceEvent, ResourceKey, ResourceList } from '../resources/index.ts';

/** The identity of a source, in configuration, debug pages, metrics and messages. */
export interface SourceIdentity {
  /** Unique among the sources of a program; `origin.source` of all its resources and problems. */
  readonly id: string;
  /** The cluster of its resources of CLUSTER_KINDS, named as by `--clusterID`. */
  readonly cluster: string;
}

/**
 * Whether a source is connected to what it reads. `reason`: one line for people. `since`: monotonic ms from which what
 * was read may be out of date; left out where nothing of the source is in force.
 */
export type SourceHealth =
  | { readonly ok: true }
  | { readonly ok: false; readonly reason: string; readonly since?: number };

/**
 * For how long what was read may be out of date, ms; 0 while it is current.
 *
 * @param now monotonic ms
 */
export function staleMs(health: SourceHealth, now: number): number {
  return health.ok || health.since === undefined ? 0 : Math.max(0, now - health.since);
}

export interface Source extends SourceIdentity {
  /** Starts sending to `sink`, which is not called before. Called once. */
  start(sink: SourceSink): void;
  /**
   * Resolves when the sink has received everything that existed at start, however long that takes. Rejects with
   * CtlError when something that exists cannot be read at start; the source cannot be used then.
   */
  readonly synced: Promise<void>;
  /** The current state. A source logs it once when it becomes bad, and once when it is good again. */
  health(): SourceHealth;
  /** Ends all reading; the sink is not called after this has resolved. */
  close(): Promise<void>;
}

/**
 * Receives what a source sends. `seenAt`: monotonic ms of the last announcement of a change, when the source knows that
 * it was quiet since.
 */
export interface SourceSink {
  /** Changes, at once. Throws when some cannot be applied; the others are applied. */
  apply(events: readonly ResourceEvent[], seenAt?: number): void;
  /**
   * The same; many are applied in slices, and take effect together. What the source sends meanwhile is applied after
   * them. Resolves when they are applied, and rejects when some cannot be; undefined: they were applied at once. A sink
   * without it has no slices.
   */
  applyInSlices?(events: readonly ResourceEvent[], seenAt?: number): Promise<void> | undefined;
  /**
   * Whether what is sent now is collected, and applied some time later. Resolution of {@link applyInSlices} says when;
   * the source may send more before that. Default: it is not.
   */
  delays?(): boolean;
  /**
   * Documents of the source that are refused though the source could read them, because of an internal error: keys, and
   * why, one line. They are applied again later. Default: none are known.
   */
  refusals?(): ReadonlyMap<ResourceKey, string>;
  /** At once: all resources of the source, or all within the list's kinds or namespace: those that are missing were deleted. */
  replace(list: ResourceList, seenAt?: number): void;
  /**
   * The same; a long list is applied in slices, and takes effect as a whole. What the source sends meanwhile ends that:
   * the rest is applied at once, before it. Resolves and rejects as {@link applyInSlices}.
   */
  replaceInSlices?(list: ResourceList, seenAt?: number): Promise<void> | undefined;
  /** Something is changing, at `at` in monotonic ms; the change comes later, if there is one. */
  changing(at: number): void;
}

/** Sends changes to a sink, in slices if it can do that. */
export function applyInSlices(
  sink: SourceSink,
  events: readonly ResourceEvent[],
  seenAt?: number,
): Promise<void> | undefined {
  if (sink.applyInSlices !== undefined) return sink.applyInSlices(events, seenAt);
  sink.apply(events, seenAt);
  return undefined;
}

/** Sends a list to a sink, in slices if it can do that. */
export function replaceInSlices(sink: SourceSink, list: ResourceList, seenAt?: number): Promise<void> | undefined {
  if (sink.replaceInSlices !== undefined) return sink.replaceInSlices(list, seenAt);
  sink.replace(list, seenAt);
  return undefined;
}
