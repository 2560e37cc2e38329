/**
 * Messages between the main thread and a generation worker: a closed union of plain data. Each worker has a mesh copy:
 * the part of the mesh that generation reads. A task first updates the mesh copy from `fromVersion` to `toVersion`,
 * then generates. A worker whose mesh copy has another version (after a restart because of a crash) returns `behind`,
 * and is sent everything. Long jobs are interrupted while others wait, and resumed by a later task.
 */
import type {
  Fact,
  FormerFilters,
  GeneratedType,
  GenerationFailure,
  GenerationFinding,
  HostsPart,
  Placement,
  Unit,
  View,
} from '../generate/index.ts';
import type { MeshDelta, ModelSettings } from '../model/index.ts';
import type { PreviewResult, PreviewTask } from './previews/index.ts';

/**
 * The changes between two snapshot versions that generation reads. With `fromVersion` 0 the update is complete and
 * replaces the mesh copy; it then includes mesh configuration, networks and settings.
 */
export interface MeshCopyUpdate extends Omit<MeshDelta, 'version'> {
  readonly fromVersion: number;
  readonly toVersion: number;
  readonly settings?: ModelSettings;
}

/**
 * Clusters that later jobs generate: these hosts, or all of which the clusters need not be there at first
 * (`laterClusterUnits`) but these. The worker finds the latter itself: ten thousand names for each view take longer.
 */
export type LaterSelection = readonly Unit[] | { readonly allBut: readonly Unit[] };

export interface GenerateJob {
  readonly viewKey: string;
  readonly view: View;
  readonly units: Readonly<Partial<Record<GeneratedType, 'all' | readonly Unit[]>>>;
  /** Set where `units` has all clusters and this job does without some. */
  readonly later?: LaterSelection;
  /** The names that virtual hosts are generated for: `<route configuration>/<host>`. Absent: all virtual hosts. */
  readonly hosts?: readonly string[];
  /** The placements of the view's proxies: clusters that depend on the placement are generated for each. */
  readonly placements: readonly Placement[];
  /** The EnvoyFilters that units were last generated with, if they differ from those of the snapshot. */
  readonly former?: readonly FormerFilters[];
}

export interface GenerateTask {
  readonly update: MeshCopyUpdate;
  readonly jobs: readonly GenerateJob[];
  /** A preview in place of jobs. */
  readonly preview?: PreviewTask;
  /** Identifies the jobs, should the worker suspend them. */
  readonly id?: number;
  /** Continues the suspended jobs of this id; `jobs` is empty then. */
  readonly resumed?: number;
  /** IDs of suspended jobs that are no longer needed. */
  readonly dropped?: readonly number[];
  /**
   * Shared with the main thread, which sets it to 1 when others wait: the worker then suspends its jobs once they have
   * run for a slice of time. Absent: they run to their end.
   */
  readonly giveWay?: Int32Array;
  /** Ids of scopes that no view uses any more: the mesh copy stops updating them. */
  readonly released?: 'all' | readonly string[];
  /** The worker must discard its numbers of units and sets of facts, and send the resources and facts again. */
  readonly forget?: true;
}

/** One resource of `GenerateAnswer.bytes`: its message is at [offset, offset + length). */
export interface EncodedSlot {
  readonly name: string;
  readonly version: string;
  readonly refs: readonly string[];
  readonly offset: number;
  readonly length: number;
}

export interface UnitAnswer {
  readonly type: GeneratedType;
  readonly unit: Unit;
  /** Indexes of the job's placements that have these resources; absent: the unit does not depend on the placement. */
  readonly placements?: readonly number[];
  /** The unit's number: later answers refer to the resources by it. */
  readonly number: number;
  /** Set if the resources are the virtual hosts for some names. */
  readonly part?: HostsPart;
  /** Number of the set of facts that were read for it; `NO_READS` for a unit that does not exist. */
  readonly reads: number;
  /** Undefined for the resources that were sent with this number before. */
  readonly resources: readonly EncodedSlot[] | undefined;
  /** Present when `resources` is a difference: from the unit of this number, without the resources of these names. */
  readonly base?: { readonly number: number; readonly gone: readonly string[] };
}

export interface FailureAnswer extends GenerationFailure {
  /** As in `UnitAnswer`. */
  readonly reads: number;
}

export interface JobAnswer {
  readonly viewKey: string;
  /** Whether nothing was generated because the snapshot does not have the view's scope: its Sidecar was deleted. */
  readonly gone: boolean;
  readonly units: readonly UnitAnswer[];
  /** Time that generating each type took, ms. */
  readonly milliseconds: Readonly<Partial<Record<GeneratedType, number>>>;
  /** Types for which all units were generated: units that are not listed no longer exist. */
  readonly complete: readonly GeneratedType[];
  readonly findings: readonly GenerationFinding[];
  readonly failures: readonly FailureAnswer[];
  /** Numbers of the sets of facts that were read to list the units of complete types. */
  readonly lists: Readonly<Partial<Record<GeneratedType, number>>>;
}

/** Facts and sets of facts that the worker has not sent before. */
export interface ReadsMessage {
  /** Earlier numbers are no longer valid. */
  readonly reset: boolean;
  /** Facts, which have the next numbers. */
  readonly facts: readonly Fact[];
  /** Sets, which have the next numbers: for each the count of its facts, then their numbers. */
  readonly sets: Uint32Array<ArrayBuffer>;
}

export type GenerateAnswer =
  | { readonly kind: 'behind'; readonly version: number }
  /** A job threw; the mesh copy is at `version` nevertheless. */
  | { readonly kind: 'failed'; readonly version: number; readonly message: string; readonly milliseconds: number }
  /** The jobs were interrupted and can be resumed. */
  | { readonly kind: 'suspended'; readonly version: number; readonly milliseconds: number }
  /** The worker does not have the jobs that it was to resume: they have to begin again. */
  | { readonly kind: 'lost'; readonly version: number }
  | {
      readonly kind: 'previewed';
      readonly version: number;
      readonly result: PreviewResult;
      /** As of jobs. */
      readonly milliseconds: number;
    }
  | {
      readonly kind: 'done';
      readonly version: number;
      /** Version of the snapshot that the jobs were generated from: the one at which they began. */
      readonly generatedFrom: number;
      readonly jobs: readonly JobAnswer[];
      readonly bytes: ArrayBuffer;
      readonly reads: ReadsMessage;
      /** Time spent generating since the jobs began or were resumed. */
      readonly milliseconds: number;
    };
