/** The options of the store, what it says of a batch of events, and what it can do. */

import type { Slices } from '../core/slices.ts';
import type {
  AnyResource,
  MeshUpdate,
  ResourceChange,
  ResourceEvent,
  ResourceKey,
  ResourceList,
  ResourceProblem,
} from '../resources/index.ts';
import type { SourceIdentity } from '../sources/index.ts';
import type { RefusedPolicies } from './refused-policies.ts';
import type { CountedEvent, SourceDocument } from './source-documents.ts';

export interface StoreOptions {
  /** In configured order: the document of the first source that has one for a key is in force. */
  readonly sources: readonly SourceIdentity[];
  /**
   * The program's own cluster (`--clusterID`). Resources of CLUSTER_KINDS from sources of other clusters have their
   * cluster's name in metadata and key.
   */
  readonly cluster: string;
  /** `--appNamespace`: namespaces whose resources are kept; empty: all. Cluster-scoped kinds are always kept. */
  readonly appNamespaces: readonly string[];
  /** Always kept, because it has the mesh-wide resources. */
  readonly rootNamespace: string;
  /**
   * Replaces refused policies, so that their workloads stay protected; if absent, refused policies are not replaced.
   */
  readonly refusedPolicies?: RefusedPolicies;
  /** Called once for every new or changed problem of a source. */
  readonly onRefused: (source: string, problem: ResourceProblem) => void;
  /** Called when such a problem has ended: its document is valid or deleted. */
  readonly onResolved: (source: string, problem: ResourceProblem) => void;
  /**
   * Called when the document of a source begins to differ from the document of another source that is in force for the
   * same key: with the one in force first, then all that differ from it. Equal documents of several sources are not a
   * conflict.
   */
  readonly onShared?: (key: ResourceKey, documents: readonly SourceDocument[]) => void;
  /** Called when a source no longer has the document in force, and the document of another source comes into force. */
  readonly onTakeover?: (key: ResourceKey, from: string, document: SourceDocument) => void;
  /** Called for every version of a resource whose warnings differ from those of the version before, if it has any. */
  readonly onWarnings?: (key: ResourceKey, resource: AnyResource) => void;
}

/** The effect of a batch of events. */
export interface AppliedSummary {
  /** Keys whose resource in force differs from before the batch. */
  readonly changed: ReadonlySet<ResourceKey>;
  /** The events of the source, for metrics. */
  readonly events: readonly CountedEvent[];
  /** Number of problems in the batch that are new or changed. */
  readonly newProblems: number;
  /**
   * Why the first of the events that could not be applied could not; the others were. A document that was refused
   * instead is a problem and not a failure.
   */
  readonly failure: Error | undefined;
}

export interface Store {
  /** Applies changes of a source; see {@link AppliedSummary.failure}. Throws InternalError for an unknown source. */
  apply(source: string, events: readonly ResourceEvent[]): AppliedSummary;
  /** The same in slices. Changes that are taken in between have a part of the events. */
  applyInSlices(source: string, events: readonly ResourceEvent[]): Slices<AppliedSummary>;
  /** Replaces everything of a source, or everything that the list covers: documents that are not listed are deleted. */
  replace(source: string, list: ResourceList): AppliedSummary;
  /** The same in slices, as {@link applyInSlices}. */
  replaceInSlices(source: string, list: ResourceList): Slices<AppliedSummary>;
  /**
   * Applies the documents of a source again that are refused because of an internal error, if no newer event of theirs
   * has come, in slices.
   */
  retryInSlices(source: string): Slices<AppliedSummary>;
  /**
   * Documents of a source that are refused because of an internal error: keys, and why, one line. Empty for an unknown
   * source.
   */
  unapplied(source: string): ReadonlyMap<ResourceKey, string>;
  /**
   * Adds a source after the configured ones. Added sources are ordered by id, so what is in force does not depend on
   * the order in which they were added. Does nothing when there is one with this id.
   */
  add(source: SourceIdentity): void;
  /**
   * Removes a source that was removed at this event time (monotonic ms), with its documents and the replacements of its
   * refused documents.
   */
  remove(source: string, eventTime: number): AppliedSummary;
  /**
   * Removes and returns pending changes (all, or those whose key passes), in key order. Several changes of a key are
   * one, from the first `before` to the last `after`.
   */
  take(filter?: (key: ResourceKey) => boolean): MeshUpdate;
  /** The change of a key since the last `take()`. */
  pending(key: ResourceKey): ResourceChange;
  /** Whether a `take()` would return anything. */
  hasPending(): boolean;
  /** The resource in force. */
  get(key: ResourceKey): AnyResource | undefined;
  /** All documents of a key, the one in force first. */
  documents(key: ResourceKey): SourceDocument[];
  /** What would be in force if the source had this document of the key (undefined: none). */
  inForceWith(source: string, key: ResourceKey, document: AnyResource | undefined): AnyResource | undefined;
  /** Whether resources of this key are kept: see `appNamespaces`. */
  keeps(key: ResourceKey): boolean;
  /** The documents of a source. */
  documentsOf(source: string): ReadonlyMap<ResourceKey, AnyResource>;
  /** Keys of which several sources have a document. */
  sharedKeys(): Iterable<ResourceKey>;
  /** The problems of all sources, in their order. */
  problems(): ResourceProblem[];
}
