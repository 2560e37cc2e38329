/**
 * Where generation runs: in a pool of worker threads (`pool-generator.ts`); or, with no workers, on the main thread
 * between other work. Both serve the callers whose configuration is generated in turns.
 */
import { CtlError, messageOf } from '../../core/errors.ts';
import type { MeshDelta, MeshSnapshot } from '../../model/types.ts';
import type { GenerateJob, JobAnswer } from '../protocol.ts';
import type { NumberedReads } from '../reads/index.ts';
import { FairQueue } from './fair-queue.ts';
import { runJobs } from './run-jobs.ts';
import { type NumberedUnits, ReceivedUnits, SentUnits } from './unit-numbers.ts';

/** A job's outcome and the snapshot version that it was generated from. */
export interface GeneratedJob {
  readonly version: number;
  readonly answer: JobAnswer;
  readonly bytes: ArrayBuffer;
  /** The units that the answer only names. */
  readonly recalled: NumberedUnits;
  /** The sets of facts that the answer names. */
  readonly reads: NumberedReads;
  /** Where the units are to be noted that it tells. */
  readonly receivedUnits: ReceivedUnits;
  /** Time spent generating, milliseconds. */
  readonly milliseconds: number;
}

/**
 * What has work to do. The job is taken when its turn has come, together with the snapshot that it is generated from,
 * and taken again when it has to be repeated: a job that was written down earlier would miss what later snapshots
 * changed beside it.
 */
export interface JobSource {
  readonly key: string;
  /** Whose configuration it is made for; each is served in turn. */
  callers(): Iterable<string>;
  takeJob(): GenerateJob;
}

export interface SubmitOptions {
  /** The job has failed before: nothing may wait behind it. */
  readonly isolated?: boolean;
}

export interface Generator {
  /** Tells of the next snapshot. Jobs taken from now on are generated from it or a later one. */
  advance(snapshot: MeshSnapshot, delta: MeshDelta): void;
  /**
   * Rejects with CtlError `internal` when the job failed, however that came about, `unavailable` when closed. Nothing
   * is repeated here: who submits it decides whether and when. One source may not be submitted twice at a time.
   */
  submit(source: JobSource, options?: SubmitOptions): Promise<GeneratedJob>;
  /** Tells which scopes no view uses any more. */
  released(scopes: readonly string[]): void;
  /** Takes a submitted job back whose turn has not come: its promise stays open for ever. False when it has come. */
  withdraw(source: JobSource): boolean;
  close(): Promise<void>;
}

interface Waiting {
  readonly resolve: (job: GeneratedJob) => void;
  readonly reject: (error: unknown) => void;
}

/** Generates on the main thread, one job per turn of the event loop. */
export class InlineGenerator implements Generator {
  #snapshot: MeshSnapshot;
  #sentUnits = new SentUnits();
  #receivedUnits = new ReceivedUnits();
  readonly #queue = new FairQueue<JobSource>();
  readonly #waiting = new Map<JobSource, Waiting>();
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
      this.#waiting.set(source, { resolve, reject });
      this.#queue.add(source, source.callers());
      this.#schedule();
    });
  }

  /** Nothing to do: it generates from the very snapshot whose scopes they were. */
  released(_scopes: readonly string[]): void {}

  withdraw(source: JobSource): boolean {
    this.#waiting.delete(source);
    return this.#queue.remove(source);
  }

  #schedule(): void {
    if (this.#scheduled || this.#queue.size === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      const source = this.#queue.shift();
      const waiting = source && this.#waiting.get(source);
      if (source === undefined || waiting === undefined) return;
      this.#waiting.delete(source);
      this.#schedule();
      try {
        waiting.resolve(this.#generate(source));
      } catch (error) {
        waiting.reject(new CtlError('internal', messageOf(error), {}, error));
      }
    });
  }

  #generate(source: JobSource): GeneratedJob {
    const job = source.takeJob();
    const made = this.#run(job);
    if (made !== undefined) return made;
    this.#sentUnits = new SentUnits();
    this.#receivedUnits = new ReceivedUnits();
    const repeated = this.#run(job);
    if (repeated === undefined) throw new TypeError('nothing said before, but a unit was not told');
    return repeated;
  }

  /** Undefined when the answer names a unit that is gone. */
  #run(job: GenerateJob): GeneratedJob | undefined {
    const started = performance.now();
    const { version } = this.#snapshot;
    const { jobs, bytes, reads: message } = runJobs(this.#snapshot, [job], this.#sentUnits);
    const [answer] = jobs;
    if (answer === undefined) throw new TypeError('one job has one answer');
    const receivedUnits = this.#receivedUnits;
    const reads = receivedUnits.reads.receive(message);
    const recalled = receivedUnits.recall(jobs);
    if (recalled === undefined) return undefined;
    return { version, answer, bytes, recalled, reads, receivedUnits, milliseconds: performance.now() - started };
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#queue.drain();
    for (const { reject } of this.#waiting.values()) reject(new CtlError('unavailable', 'generation is closed'));
    this.#waiting.clear();
    return Promise.resolve();
  }
}
