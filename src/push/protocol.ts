/**
 * Messages between the main thread and a generation worker: a closed union of plain data. Each worker holds a replica
 * of what generation reads of the mesh; a task first brings the replica from `fromVersion` to `toVersion`, then
 * generates. A worker that stands elsewhere (it was restarted after a crash) answers `behind` and is given everything.
 */
import type { Fact } from '../generate/index.ts';
import type { GeneratedType, GenerationFinding, Placement, Unit, View } from '../generate/types.ts';
import type { MeshDelta, ModelSettings } from '../model/types.ts';

/**
 * What changed of what generation reads between two snapshot versions. `fromVersion` 0 means: forget everything, this
 * is all there is; then mesh configuration, networks and settings are present.
 */
export interface ReplicaUpdate extends Omit<MeshDelta, 'version'> {
  readonly fromVersion: number;
  readonly toVersion: number;
  readonly settings?: ModelSettings;
}

export interface GenerateJob {
  readonly viewKey: string;
  readonly view: View;
  readonly units: Readonly<Partial<Record<GeneratedType, 'all' | readonly Unit[]>>>;
  /** Where the view's proxies are: clusters that depend on it are made for each. */
  readonly placements: readonly Placement[];
}

export interface GenerateTask {
  readonly update: ReplicaUpdate;
  readonly jobs: readonly GenerateJob[];
  /** Ids of scopes that no view uses any more: the replica is not to keep them up to date. */
  readonly released?: 'all' | readonly string[];
  /** The numbers of units said so far mean nothing any more: what they name has to be told again. */
  readonly forget?: true;
}

/** One resource in `GenerateAnswer.bytes`: message bytes lie at [offset, offset + length). */
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
  /** Indexes of the job's placements in which the unit is this; absent: it is the same in all. */
  readonly placements?: readonly number[];
  /** Names the resources from here on. */
  readonly number: number;
  /** Number of the set of facts that were read for it; `NO_READS` for a unit that does not exist. */
  readonly reads: number;
  /** Undefined: the same as when the number was first said. */
  readonly resources: readonly EncodedSlot[] | undefined;
  /** The unit is the one of this number, but for `resources`, and for those of these names, which are gone. */
  readonly base?: { readonly number: number; readonly gone: readonly string[] };
}

export interface JobAnswer {
  readonly viewKey: string;
  /** The snapshot does not have the view's scope: its Sidecar was deleted, and may be back by now. Nothing was made. */
  readonly gone: boolean;
  readonly units: readonly UnitAnswer[];
  /** Time that generating each type took, ms. */
  readonly milliseconds: Readonly<Partial<Record<GeneratedType, number>>>;
  /** Types for which every unit was asked: units not listed are gone. */
  readonly complete: readonly GeneratedType[];
  readonly findings: readonly GenerationFinding[];
  readonly failures: readonly {
    readonly type: GeneratedType;
    readonly unit: Unit;
    readonly message: string;
    readonly reads: number;
  }[];
  /** What was read to know the units of complete types: numbers of sets of facts. */
  readonly lists: Readonly<Partial<Record<GeneratedType, number>>>;
}

/** What a worker tells of sets that it has not told before. */
export interface ReadsMessage {
  /** The numbers that were told before mean nothing any more. */
  readonly fresh: boolean;
  /** Facts, which have the next numbers. */
  readonly facts: readonly Fact[];
  /** Sets, which have the next numbers: of each how many facts it has, then their numbers. */
  readonly sets: Uint32Array<ArrayBuffer>;
}

export type GenerateAnswer =
  | { readonly kind: 'behind'; readonly version: number }
  /** The job threw; the replica stands at `version` all the same. */
  | { readonly kind: 'failed'; readonly version: number; readonly message: string }
  | {
      readonly kind: 'done';
      readonly version: number;
      readonly jobs: readonly JobAnswer[];
      readonly bytes: ArrayBuffer;
      readonly reads: ReadsMessage;
      readonly milliseconds: number;
    };
