/**
 * Runs jobs against a snapshot, down to the bytes in one buffer. Workers and, without workers, the main thread use the
 * same function, so their results are equal byte for byte.
 */
import type { Memos, WeakMemo } from '../../core/memo.ts';
import {
  GENERATED_TYPES,
  type GeneratedResource,
  type GeneratedType,
  type GenerationFinding,
  generate,
  MeshReader,
  scopeOfView,
  type Unit,
} from '../../generate/index.ts';
import type { MeshSnapshot } from '../../model/index.ts';
import { contentVersion } from '../bundles/index.ts';
import type { EncodedSlot, GenerateJob, JobAnswer, ReadsMessage, UnitAnswer } from '../protocol.ts';
import { NO_READS } from '../reads/index.ts';
import { SentUnits } from './unit-numbers.ts';

export interface JobsResult {
  readonly jobs: readonly JobAnswer[];
  readonly bytes: ArrayBuffer;
  readonly reads: ReadsMessage;
}

/** Versions of messages that generation still has: hashed once for all views. */
type Versions = WeakMemo<Uint8Array, string>;

function versionOf(versions: Versions, bytes: Uint8Array): string {
  return versions.get(bytes, () => contentVersion(bytes));
}

/**
 * The hash of the pieces' hashes. It identifies the content as well as a hash of the message would, because a message
 * is always cut into the same pieces; and a changed virtual host does not cost hashing the thousand others.
 */
function versionOfPieces(versions: Versions, pieces: readonly Uint8Array[]): string {
  return contentVersion(Buffer.from(pieces.map((piece) => versionOf(versions, piece)).join(''), 'latin1'));
}

/** Concatenates messages; kept as parts until all are known. */
class Layout {
  readonly #versions: Versions;
  readonly #parts: Uint8Array[] = [];
  #length = 0;

  constructor(memos: Memos) {
    this.#versions = memos.weak('versions of messages');
  }

  append(resource: GeneratedResource): EncodedSlot {
    const { name, refs, pieces } = resource;
    const offset = this.#length;
    for (const piece of pieces ?? [resource.bytes]) {
      this.#parts.push(piece);
      this.#length += piece.length;
    }
    const version =
      pieces === undefined ? versionOf(this.#versions, resource.bytes) : versionOfPieces(this.#versions, pieces);
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

function runJob(snapshot: MeshSnapshot, job: GenerateJob, layout: Layout, sentUnits: SentUnits): JobAnswer {
  const { viewKey, view } = job;
  if (scopeOfView(MeshReader.of(snapshot), view) === undefined)
    return { viewKey, gone: true, units: [], milliseconds: {}, complete: [], findings: [], failures: [], lists: {} };
  const units: UnitAnswer[] = [];
  const findings: GenerationFinding[] = [];
  const failures: JobAnswer['failures'][number][] = [];
  const lists: Partial<Record<GeneratedType, number>> = {};
  const milliseconds: Partial<Record<GeneratedType, number>> = {};
  for (const type of GENERATED_TYPES) {
    const selected = job.units[type];
    if (selected === undefined) continue;
    const started = performance.now();
    const selection = { [type]: selected === 'all' ? 'all' : new Set(selected) };
    const result = generate(snapshot, view, selection, job.placements);
    const ofType = result.reads[type];
    const readsOf = (unit: Unit): number => {
      const facts = ofType?.units.get(unit);
      return facts === undefined ? NO_READS : sentUnits.reads.send(facts);
    };
    if (ofType?.list !== undefined) lists[type] = sentUnits.reads.send(ofType.list);
    for (const [unit, resources] of result.units[type] ?? []) {
      const { resources: sent, ...named } = sentUnits.send(resources, `${viewKey} ${type} ${unit}`);
      units.push({ type, unit, ...named, reads: readsOf(unit), resources: sent?.map((each) => layout.append(each)) });
    }
    for (const [unit, placed] of result.placed) {
      // Equal units are answered once, with all their placements: a number refers to units of earlier jobs only.
      for (const [resources, placements] of indexesByList(placed)) {
        const path = `${viewKey} ${type} ${unit} ${JSON.stringify(job.placements[placements[0] ?? 0])}`;
        const { resources: sent, ...named } = sentUnits.send(resources, path);
        units.push({
          type,
          unit,
          placements,
          ...named,
          reads: readsOf(unit),
          resources: sent?.map((each) => layout.append(each)),
        });
      }
    }
    findings.push(...result.findings);
    for (const failure of result.failures) failures.push({ ...failure, reads: readsOf(failure.unit) });
    milliseconds[type] = performance.now() - started;
  }
  const complete = GENERATED_TYPES.filter((type) => job.units[type] === 'all');
  return { viewKey, gone: false, units, milliseconds, complete, findings, failures, lists };
}

/**
 * Runs jobs one after the other; units that were sent before are named by number. Never throws for what is in the
 * configuration (`generate` reports that in `failures`).
 */
export function runJobs(
  snapshot: MeshSnapshot,
  jobs: readonly GenerateJob[],
  sentUnits: SentUnits = new SentUnits(),
): JobsResult {
  const layout = new Layout(snapshot.memos);
  const answers = jobs.map((job) => runJob(snapshot, job, layout, sentUnits));
  return { jobs: answers, bytes: layout.join(), reads: sentUnits.reads.take() };
}
