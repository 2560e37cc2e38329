/**
 * Runs jobs against a snapshot, and collects the resulting bytes in one buffer. Workers and, without workers, the main
 * thread use the same functions, so their results are equal byte for byte. Generation may be interrupted after each
 * unit; numbers are assigned to units when all are generated, because an answer must not refer to units of another
 * answer that is not sent yet.
 */
import type { Memos } from '../../core/memo.ts';
import { finish, type Slices } from '../../core/slices.ts';
import {
  GENERATED_TYPES,
  type GeneratedResource,
  type GeneratedType,
  type GenerationFinding,
  type GenerationResult,
  generateInSlices,
  laterClusterUnits,
  MeshReader,
  scopeOfView,
  type Unit,
} from '../../generate/index.ts';
import type { MeshSnapshot } from '../../model/index.ts';
import { type MessageVersions, versionOfResource, versionsOfMessages } from '../bundles/index.ts';
import type { EncodedSlot, GenerateJob, JobAnswer, ReadsMessage, UnitAnswer } from '../protocol.ts';
import { NO_READS } from '../reads/index.ts';
import { SentUnits } from './unit-numbers.ts';

export interface JobsResult {
  readonly jobs: readonly JobAnswer[];
  readonly bytes: ArrayBuffer;
  readonly reads: ReadsMessage;
}

/** Concatenates messages; kept as parts until all are known. */
class Layout {
  readonly #versions: MessageVersions;
  readonly #parts: Uint8Array[] = [];
  #length = 0;

  constructor(memos: Memos) {
    this.#versions = versionsOfMessages(memos);
  }

  append(resource: GeneratedResource): EncodedSlot {
    const { name, refs, pieces } = resource;
    const offset = this.#length;
    for (const piece of pieces ?? [resource.bytes]) {
      this.#parts.push(piece);
      this.#length += piece.length;
    }
    const version = versionOfResource(this.#versions, resource);
    return { name, version, refs, offset, length: this.#length - offset };
  }

  /** Copies into a new buffer: encoders return slices of shared pools, which must not be transferred. */
  join(): ArrayBuffer {
    const joined = new Uint8Array(this.#length);
    let at = 0;
    for (const part of this.#parts) {
      joined.set(part, at);
      at += part.length;
    }
    return joined.buffer;
  }
}

/** Each distinct list and the indexes at which it occurs. */
function indexesByList<T extends object>(lists: readonly T[]): Map<T, number[]> {
  const indexes = new Map<T, number[]>();
  for (const [index, list] of lists.entries()) indexes.set(list, [...(indexes.get(list) ?? []), index]);
  return indexes;
}

/** The resources of one type that a job requests. */
interface GeneratedPart {
  readonly type: GeneratedType;
  readonly result: GenerationResult;
  readonly milliseconds: number;
}

/** The result of a job; undefined if the snapshot does not have its view's scope. */
export type GeneratedParts = readonly GeneratedPart[] | undefined;

/** Generates what a job requests; may be interrupted after each unit. */
export function* generateJob(snapshot: MeshSnapshot, job: GenerateJob): Slices<GeneratedParts> {
  const { view, placements, former = [] } = job;
  if (scopeOfView(MeshReader.of(snapshot), view) === undefined) return undefined;
  const onNeed = { later: laterOf(snapshot, job), hosts: job.hosts };
  const versions = versionsOfMessages(snapshot.memos);
  const parts: GeneratedPart[] = [];
  for (const type of GENERATED_TYPES) {
    const selected = job.units[type];
    if (selected === undefined) continue;
    const selection = { [type]: selected === 'all' ? 'all' : new Set(selected) };
    const { value: result, milliseconds } = yield* timed(
      generateInSlices(snapshot, view, selection, placements, former, onNeed),
    );
    const hashed = yield* timed(hashInSlices(versions, result));
    parts.push({ type, result, milliseconds: milliseconds + hashed.milliseconds });
  }
  return parts;
}

function laterOf(snapshot: MeshSnapshot, { view, later }: GenerateJob): ReadonlySet<Unit> {
  if (later === undefined || !('allBut' in later)) return new Set(later);
  const all = laterClusterUnits(MeshReader.of(snapshot), view);
  return later.allBut.length === 0 ? all : all.difference(new Set(later.allBut));
}

/** Hashes new resources. The hashes are remembered, so that little is left to do when the units are sent. */
function* hashInSlices(versions: MessageVersions, { units, placed }: GenerationResult): Slices<void> {
  const lists = [...Object.values(units).flatMap((ofType) => [...ofType.values()]), ...[...placed.values()].flat()];
  for (const list of lists) {
    const [first] = list;
    // Most lists are the same as those of other views.
    if (first === undefined || versions.has(first.bytes)) continue;
    for (const resource of list) versionOfResource(versions, resource);
    yield;
  }
}

/** Measures work without the time in which it is interrupted. */
function* timed<T>(work: Slices<T>): Slices<{ readonly value: T; readonly milliseconds: number }> {
  for (let milliseconds = 0; ; ) {
    const started = performance.now();
    const step = work.next();
    milliseconds += performance.now() - started;
    if (step.done === true) return { value: step.value, milliseconds };
    yield;
  }
}

/** The answer to a job, with the numbers of what it sends. */
function answerTo(job: GenerateJob, parts: GeneratedParts, layout: Layout, sentUnits: SentUnits): JobAnswer {
  const { viewKey } = job;
  if (parts === undefined)
    return { viewKey, gone: true, units: [], milliseconds: {}, complete: [], findings: [], failures: [], lists: {} };
  const units: UnitAnswer[] = [];
  const findings: GenerationFinding[] = [];
  const failures: JobAnswer['failures'][number][] = [];
  const lists: Partial<Record<GeneratedType, number>> = {};
  const milliseconds: Partial<Record<GeneratedType, number>> = {};
  for (const { type, result, milliseconds: took } of parts) {
    const ofType = result.reads[type];
    const readsOf = (unit: Unit): number => {
      const facts = ofType?.units.get(unit);
      return facts === undefined ? NO_READS : sentUnits.reads.send(facts);
    };
    if (ofType?.list !== undefined) lists[type] = sentUnits.reads.send(ofType.list);
    const send = (
      unit: Unit,
      resources: readonly GeneratedResource[],
      placement?: string,
      placements?: readonly number[],
    ) => {
      const kind = placement === undefined ? `${type} ${unit}` : `${type} ${unit} ${placement}`;
      const part = type === 'vhds' ? result.parts.get(unit) : undefined;
      const { resources: sent, ...named } = sentUnits.send(resources, `${viewKey} ${kind}`, kind);
      units.push({
        type,
        unit,
        ...(placements !== undefined && { placements }),
        ...named,
        ...(part !== undefined && { part }),
        reads: readsOf(unit),
        resources: sent?.map((each) => layout.append(each)),
      });
    };
    for (const [unit, resources] of result.units[type] ?? []) send(unit, resources);
    for (const [unit, placed] of result.placed) {
      // Equal units are sent once, with all their placements: a number only refers to units of earlier jobs.
      for (const [resources, placements] of indexesByList(placed)) {
        const placement = JSON.stringify(job.placements[placements[0] ?? 0]);
        send(unit, resources, placement, placements);
      }
    }
    findings.push(...result.findings);
    for (const failure of result.failures) failures.push({ ...failure, reads: readsOf(failure.unit) });
    milliseconds[type] = took;
  }
  const complete = GENERATED_TYPES.filter((type) => job.units[type] === 'all');
  return { viewKey, gone: false, units, milliseconds, complete, findings, failures, lists };
}

/** A job and what was generated for it. */
export interface GeneratedFor {
  readonly job: GenerateJob;
  readonly parts: GeneratedParts;
}

/** The answers to jobs; units that were sent before are named by number. */
export function answersTo(
  snapshot: MeshSnapshot,
  generated: readonly GeneratedFor[],
  sentUnits: SentUnits,
): JobsResult {
  const layout = new Layout(snapshot.memos);
  const answers = generated.map(({ job, parts }) => answerTo(job, parts, layout, sentUnits));
  return { jobs: answers, bytes: layout.join(), reads: sentUnits.reads.take() };
}

/**
 * Runs jobs one after the other, without interruption. Never throws because of the configuration (`generate` reports
 * that in `failures`).
 */
export function runJobs(
  snapshot: MeshSnapshot,
  jobs: readonly GenerateJob[],
  sentUnits: SentUnits = new SentUnits(),
): JobsResult {
  // One after the other: a job finds the units that the one before has sent.
  const generated = jobs.map((job) => ({ job, parts: finish(generateJob(snapshot, job)) }));
  return answersTo(snapshot, generated, sentUnits);
}
