/**
 * A worker's mesh copy: the part of the mesh that generation reads. Only changes are sent to the thread, as plain data;
 * the same code as on the main thread applies them.
 */
import { InternalError, messageOf } from '../../core/errors.ts';
import type { Slices } from '../../core/slices.ts';
import { scopeIdOfView } from '../../generate/index.ts';
import { MeshModel, type MeshSnapshot } from '../../model/index.ts';
import { type PreviewTask, previewInSlices } from '../previews/index.ts';
import type { GenerateAnswer, GenerateJob, GenerateTask, MeshCopyUpdate } from '../protocol.ts';
import { scopeOfKey } from '../proxies/index.ts';
import { answersTo, type GeneratedFor, generateJob } from './run-jobs.ts';
import { SentUnits } from './unit-numbers.ts';

/**
 * How long jobs run before they are suspended for others, ms: the delay that others may see. Shorter slices would cost
 * more messages between the threads.
 */
const SLICE_MS = 50;

/** The same of a preview, which gives way to jobs at once. */
const PREVIEW_SLICE_MS = 0;

/** What an answer has when work is done, besides versions and time. */
type Result = (sentUnits: SentUnits) => ResultOf<'done'> | ResultOf<'previewed'>;
type ResultOf<K extends GenerateAnswer['kind']> = Omit<
  Extract<GenerateAnswer, { readonly kind: K }>,
  'version' | 'milliseconds'
>;

/** Work in progress. It is generated from one snapshot, even when the mesh copy is updated while it is suspended. */
interface Run {
  readonly sliceMs: number;
  readonly work: Slices<Result>;
}

function* generateAll(snapshot: MeshSnapshot, jobs: readonly GenerateJob[]): Slices<Result> {
  const generated: GeneratedFor[] = [];
  for (const job of jobs) generated.push({ job, parts: yield* generateJob(snapshot, job) });
  return (sentUnits) => ({
    kind: 'done',
    generatedFrom: snapshot.version,
    ...answersTo(snapshot, generated, sentUnits),
  });
}

/** Compares the mesh with one that the change is applied to, of which nothing is kept. */
function* previewAll(model: MeshModel, task: PreviewTask): Slices<Result> {
  const before = model.snapshot;
  const candidate = model.fork();
  candidate.apply(task.delta);
  const result = yield* previewInSlices({ before, after: candidate.snapshot }, task, () => performance.now());
  return () => ({ kind: 'previewed', result });
}

export interface MeshCopyOptions {
  /** How long jobs run before they are suspended for others, ms. */
  readonly sliceMs?: number;
}

export class MeshCopy {
  readonly #sliceMs: number;
  #model: MeshModel | undefined;
  #version = 0;
  #sentUnits = new SentUnits();
  /** Scopes that jobs needed and that were not released since. */
  #acquired = new Set<string>();
  /** Suspended jobs by id. */
  readonly #suspended = new Map<number, Run>();

  constructor({ sliceMs = SLICE_MS }: MeshCopyOptions = {}) {
    this.#sliceMs = sliceMs;
  }

  /** The mesh copy's snapshot; undefined before the first update. */
  get snapshot(): MeshSnapshot | undefined {
    return this.#model?.snapshot;
  }

  /** Number of scopes that the mesh copy keeps up to date. */
  get scopes(): number {
    return this.#model?.scopes ?? 0;
  }

  /** Number of suspended runs. */
  get suspended(): number {
    return this.#suspended.size;
  }

  /**
   * Updates the mesh copy and runs the task's jobs. Returns `behind` if the update does not start at the mesh copy's
   * version, `failed` if a job throws an error, `suspended` if the jobs were interrupted for others, and `lost` if
   * there is nothing to resume; the mesh copy stays usable in all cases. Throws if the update cannot be applied; the
   * mesh copy is then empty.
   */
  run(task: GenerateTask): GenerateAnswer {
    if (task.forget === true) this.#sentUnits = new SentUnits();
    if (task.released !== undefined) this.#release(task.released);
    for (const id of task.dropped ?? []) this.#suspended.delete(id);
    const model = this.#update(task.update);
    if (model === undefined) return { kind: 'behind', version: this.#version };
    const started = performance.now();
    try {
      const run = this.#runOf(model, task);
      if (run === undefined) return { kind: 'lost', version: this.#version };
      return this.#continue(run, task, started);
    } catch (error) {
      return {
        kind: 'failed',
        version: this.#version,
        message: messageOf(error),
        milliseconds: performance.now() - started,
      };
    }
  }

  /** The jobs of the task, or those that it resumes; undefined if these are not known. */
  #runOf(model: MeshModel, { jobs, resumed, preview }: GenerateTask): Run | undefined {
    if (resumed !== undefined) {
      const run = this.#suspended.get(resumed);
      this.#suspended.delete(resumed);
      return run;
    }
    if (preview !== undefined) return { sliceMs: PREVIEW_SLICE_MS, work: previewAll(model, preview) };
    for (const { view } of jobs) this.#acquire(model, scopeIdOfView(view));
    return { sliceMs: this.#sliceMs, work: generateAll(model.snapshot, jobs) };
  }

  /** Runs jobs until they are done, or until others wait and a slice of time has passed. */
  #continue(run: Run, { id, resumed, giveWay }: GenerateTask, started: number): GenerateAnswer {
    const name = resumed ?? id;
    for (;;) {
      const step = run.work.next();
      const milliseconds = performance.now() - started;
      if (step.done === true) {
        const result = step.value(this.#sentUnits);
        return { ...result, version: this.#version, milliseconds: performance.now() - started };
      }
      if (name === undefined || giveWay === undefined || milliseconds < run.sliceMs) continue;
      if (Atomics.load(giveWay, 0) === 0) continue;
      this.#suspended.set(name, run);
      return { kind: 'suspended', version: this.#version, milliseconds };
    }
  }

  #acquire(model: MeshModel, id: string): void {
    if (this.#acquired.has(id)) return;
    model.acquire(id);
    this.#acquired.add(id);
  }

  #release(released: 'all' | readonly string[]): void {
    const gone = released === 'all' ? undefined : new Set(released);
    this.#sentUnits.forget((path) => gone === undefined || gone.has(scopeOfKey(path)));
    for (const id of released === 'all' ? [...this.#acquired] : released) {
      if (this.#acquired.delete(id)) this.#model?.release(id);
    }
  }

  #update(update: MeshCopyUpdate): MeshModel | undefined {
    const { fromVersion, toVersion, ...delta } = update;
    if (fromVersion !== 0 && fromVersion !== this.#version) return undefined;
    if (fromVersion !== 0 && toVersion === fromVersion) return this.#model;
    const model = fromVersion === 0 ? emptyMesh(update) : this.#model;
    if (model === undefined) return undefined;
    // If this throws, no partially applied update remains.
    this.#model = undefined;
    this.#version = 0;
    if (fromVersion === 0) this.#acquired = new Set();
    model.apply({ ...delta, version: toVersion });
    this.#model = model;
    this.#version = toVersion;
    return model;
  }
}

function emptyMesh({ settings, mesh, networks }: MeshCopyUpdate): MeshModel {
  if (settings === undefined || mesh === undefined || networks === undefined) {
    throw new InternalError('an update from version 0 carries settings, mesh configuration and networks');
  }
  return MeshModel.empty(settings, mesh, networks);
}
