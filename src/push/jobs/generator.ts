/**
 * Where generation runs: in a pool of worker threads (`pool-generator.ts`) or, without workers, on the main thread
 * between other work. Both share their time among namespaces and callers (`job-queue.ts`).
 */
import { CtlError, InternalError, messageOf } from '../../core/errors.ts';
import type { Slices } from '../../core/slices.ts';
import type { MeshDelta, MeshSnapshot } from '../../model/index.ts';
import { type PreviewedMeshes, type PreviewResult, type PreviewTask, previewInSlices } from '../previews/index.ts';
import type { GenerateJob, JobAnswer } from '../protocol.ts';
import type { NumberedReads } from '../reads/index.ts';
import { JobQueue, type Lane } from './job-queue.ts';
import { answersTo, type GeneratedParts, generateJob } from './run-jobs.ts';
import { type NumberedUnits, ReceivedUnits, SentUnits } from './unit-numbers.ts';

/** The result of a job, and the version of the snapshot that it was generated from. */
export interface GeneratedJob {
  readonly version: number;
  readonly answer: JobAnswer;
  readonly bytes: ArrayBuffer;
  /** The units that the answer refers to by number without sending them. */
  readonly recalled: NumberedUnits;
  /** The sets of facts that the answer refers to. */
  readonly reads: NumberedReads;
  /** Takes the units that the answer sends. */
  readonly receivedUnits: ReceivedUnits;
  /** Time spent generating, without the time in which the job was suspended, ms. */
  readonly milliseconds: number;
}

/**
 * A source of jobs. The job is taken when its turn has come, together with the snapshot that it is generated from, and
 * again when it is repeated: a job that is fixed at submission would miss units that later snapshots made dirty.
 */
export interface JobSource {
  readonly key: string;
  /** Whose proxies need it. */
  lanes(): Iterable<Lane>;
  takeJob(): GenerateJob;
}

export interface SubmitOptions {
  /** The job failed before: it must not delay others. */
  readonly isolated?: boolean;
}

/** A preview. It is taken when its turn has come: what it compares has to fit the snapshot of that moment. */
export interface PreviewSource {
  takePreview(): { readonly task: PreviewTask; readonly meshes: PreviewedMeshes };
  /** Called when its worker died or had to be terminated, even if the preview was aborted before. */
  onWorkerLost(): void;
}

/** Generators compare, too, while no job waits. */
export interface Previewer {
  /**
   * Rejects with CtlError `unavailable` when another preview is in progress or the generator is closed,
   * `deadline_exceeded` when the signal aborts, `internal` when generation fails for whatever reason.
   */
  preview(source: PreviewSource, signal: AbortSignal): Promise<PreviewResult>;
}

export interface Generator {
  /** Sets the next snapshot. Jobs taken from now on are generated from it or from a later one. */
  advance(snapshot: MeshSnapshot, delta: MeshDelta): void;
  /**
   * Rejects with CtlError `internal` if the job failed for any reason, and with `unavailable` when closed. The
   * submitter decides whether and when to retry. A source must not be submitted while its last job runs.
   */
  submit(source: JobSource, options?: SubmitOptions): Promise<GeneratedJob>;
  /** Releases scopes that no view uses any more. */
  released(scopes: readonly string[]): void;
  /** Cancels a job whose turn has not come; its promise is never settled. False when the job runs already. */
  withdraw(source: JobSource): boolean;
  close(): Promise<void>;
}

/** How long a job runs on the main thread before other work is done, ms. */
const SLICE_MS = 10;

/** A job in progress, which is generated from one snapshot. */
interface Run {
  readonly job: GenerateJob;
  readonly snapshot: MeshSnapshot;
  readonly work: Slices<GeneratedParts>;
}

interface Waiting {
  readonly source: JobSource;
  readonly resolve: (job: GeneratedJob) => void;
  readonly reject: (error: unknown) => void;
  /** Undefined until its first turn. */
  run: Run | undefined;
  milliseconds: number;
}

/** A preview in progress. */
interface RunningPreview {
  readonly resolve: (result: PreviewResult) => void;
  readonly reject: (error: unknown) => void;
  readonly source: PreviewSource;
  /** Undefined until its first turn. */
  work: Slices<PreviewResult> | undefined;
}

export function anotherPreview(): CtlError {
  return new CtlError('unavailable', 'another preview is in progress, try again later');
}

export function previewAborted(): CtlError {
  return new CtlError('deadline_exceeded', 'the preview was ended before it was complete');
}

function beginPreview(source: PreviewSource): Slices<PreviewResult> {
  const { task, meshes } = source.takePreview();
  return previewInSlices(meshes, task, () => performance.now());
}

/** Generates on the main thread, a slice of one job per turn of the event loop. */
export class InlineGenerator implements Generator, Previewer {
  #snapshot: MeshSnapshot;
  #sentUnits = new SentUnits();
  #receivedUnits = new ReceivedUnits();
  readonly #queue = new JobQueue<Waiting>();
  readonly #waiting = new Map<JobSource, Waiting>();
  #preview: RunningPreview | undefined;
  #scheduled = false;
  #closed = false;

  constructor(snapshot: MeshSnapshot) {
    this.#snapshot = snapshot;
  }

  advance(snapshot: MeshSnapshot): void {
    this.#snapshot = snapshot;
  }

  submit(source: JobSource): Promise<GeneratedJob> {
    if (this.#closed) return Promise.reject(new CtlError('unavailable', 'generation is closed'));
    return new Promise((resolve, reject) => {
      this.#wait({ source, resolve, reject, run: undefined, milliseconds: 0 });
      this.#schedule();
    });
  }

  #wait(waiting: Waiting): void {
    const { source, run } = waiting;
    this.#waiting.set(source, waiting);
    this.#queue.add(waiting, source.lanes(), { begun: run !== undefined });
  }

  preview(source: PreviewSource, signal: AbortSignal): Promise<PreviewResult> {
    if (this.#closed) return Promise.reject(new CtlError('unavailable', 'generation is closed'));
    if (this.#preview !== undefined) return Promise.reject(anotherPreview());
    return new Promise((resolve, reject) => {
      const running = { source, resolve, reject, work: undefined };
      this.#preview = running;
      signal.addEventListener('abort', () => {
        if (this.#preview === running) this.#preview = undefined;
        reject(previewAborted());
      });
      this.#schedule();
    });
  }

  /** Nothing to do: the snapshot's own scopes are used. */
  released(_scopes: readonly string[]): void {}

  withdraw(source: JobSource): boolean {
    const waiting = this.#waiting.get(source);
    this.#waiting.delete(source);
    return waiting !== undefined && this.#queue.remove(waiting);
  }

  #schedule(): void {
    if (this.#scheduled || (this.#queue.size === 0 && this.#preview === undefined)) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      const next = this.#queue.next();
      if (next === undefined) {
        this.#continuePreview();
        this.#schedule();
        return;
      }
      const { item: waiting, lane } = next;
      this.#waiting.delete(waiting.source);
      const started = performance.now();
      try {
        const made = this.#continue(waiting, started);
        if (made === undefined) this.#wait(waiting);
        else waiting.resolve(made);
      } catch (error) {
        waiting.reject(new CtlError('internal', messageOf(error), {}, error));
      }
      this.#queue.charge(lane, performance.now() - started);
      this.#schedule();
    });
  }

  /** Runs the preview for a slice of time. */
  #continuePreview(): void {
    const running = this.#preview;
    if (running === undefined) return;
    const started = performance.now();
    try {
      running.work ??= beginPreview(running.source);
      for (;;) {
        const step = running.work.next();
        if (step.done === true) {
          this.#preview = undefined;
          running.resolve(step.value);
          return;
        }
        if (performance.now() - started >= SLICE_MS) return;
      }
    } catch (error) {
      this.#preview = undefined;
      running.reject(new CtlError('internal', messageOf(error), {}, error));
    }
  }

  /** Runs a job for a slice of time; undefined if it is not complete. */
  #continue(waiting: Waiting, started: number): GeneratedJob | undefined {
    waiting.run ??= this.#begin(waiting.source);
    const { run } = waiting;
    for (;;) {
      const step = run.work.next();
      const milliseconds = performance.now() - started;
      if (step.done === true) return this.#done(run, step.value, waiting.milliseconds + milliseconds);
      if (milliseconds < SLICE_MS) continue;
      waiting.milliseconds += milliseconds;
      return undefined;
    }
  }

  #begin(source: JobSource): Run {
    const job = source.takeJob();
    const snapshot = this.#snapshot;
    return { job, snapshot, work: generateJob(snapshot, job) };
  }

  #done(run: Run, parts: GeneratedParts, milliseconds: number): GeneratedJob {
    const made = this.#answer(run, parts, milliseconds);
    if (made !== undefined) return made;
    this.#sentUnits = new SentUnits();
    this.#receivedUnits = new ReceivedUnits();
    const repeated = this.#answer(run, parts, milliseconds);
    if (repeated === undefined) throw new InternalError('a unit was not sent although no number was known');
    return repeated;
  }

  /** Undefined when the answer names a unit that was freed. */
  #answer({ job, snapshot }: Run, parts: GeneratedParts, milliseconds: number): GeneratedJob | undefined {
    const { version } = snapshot;
    const { jobs, bytes, reads: message } = answersTo(snapshot, [{ job, parts }], this.#sentUnits);
    const [answer] = jobs;
    if (answer === undefined) throw new InternalError('one job has one answer');
    const receivedUnits = this.#receivedUnits;
    const reads = receivedUnits.reads.receive(message);
    const recalled = receivedUnits.recall(jobs);
    if (recalled === undefined) return undefined;
    return { version, answer, bytes, recalled, reads, receivedUnits, milliseconds };
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#queue.drain();
    for (const { reject } of this.#waiting.values()) reject(new CtlError('unavailable', 'generation is closed'));
    this.#waiting.clear();
    this.#preview?.reject(new CtlError('unavailable', 'generation is closed'));
    this.#preview = undefined;
    return Promise.resolve();
  }
}
