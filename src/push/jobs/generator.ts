/**
 * Where generation runs: in a pool of worker threads (`pool-generator.ts`) or, without workers, on the main thread
 * between other work. Both serve callers round-robin.
 */
import { CtlError, InternalError, messageOf } from '../../core/errors.ts';
import type { MeshDelta, MeshSnapshot } from '../../model/index.ts';
import type { GenerateJob, JobAnswer } from '../protocol.ts';
import type { NumberedReads } from '../reads/index.ts';
import { FairQueue } from './fair-queue.ts';
import { runJobs } from './run-jobs.ts';
import { type NumberedUnits, ReceivedUnits, SentUnits } from './unit-numbers.ts';

/** The result of a job, and the version of the snapshot that it was generated from. */
export interface GeneratedJob {
  readonly version: number;
  readonly answer: JobAnswer;
  readonly bytes: ArrayBuffer;
  /** The units that the answer names by number without sending them. */
  readonly recalled: NumberedUnits;
  /** The sets of facts that the answer names. */
  readonly reads: NumberedReads;
  /** Takes the units that the answer sends. */
  readonly receivedUnits: ReceivedUnits;
  /** Time spent generating, milliseconds. */
  readonly milliseconds: number;
}

/**
 * Something to generate. The job is taken when its turn has come, together with the snapshot that it is generated from,
 * and taken again when it is repeated: a job fixed at submission would miss units that later snapshots made dirty.
 */
export interface JobSource {
  readonly key: string;
  /** The callers whose proxies need it; callers are served round-robin. */
  callers(): Iterable<string>;
  takeJob(): GenerateJob;
}

export interface SubmitOptions {
  /** The job failed before: it must not delay others. */
  readonly isolated?: boolean;
}

export interface Generator {
  /** Sets the next snapshot. Jobs taken from now on are generated from it or from a later one. */
  advance(snapshot: MeshSnapshot, delta: MeshDelta): void;
  /**
   * Rejects with CtlError `internal` when the job failed for whatever reason, `unavailable` when closed. Nothing is
   * retried here: the submitter decides whether and when. A source must not be submitted while its last job runs.
   */
  submit(source: JobSource, options?: SubmitOptions): Promise<GeneratedJob>;
  /** Releases scopes that no view uses any more. */
  released(scopes: readonly string[]): void;
  /** Cancels a job whose turn has not come; its promise is never settled. False when the job runs already. */
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

  /** Nothing to do: the snapshot's own scopes are used. */
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
    if (repeated === undefined) throw new InternalError('a unit was not sent although no number was known');
    return repeated;
  }

  /** Undefined when the answer names a unit that was freed. */
  #run(job: GenerateJob): GeneratedJob | undefined {
    const started = performance.now();
    const { version } = this.#snapshot;
    const { jobs, bytes, reads: message } = runJobs(this.#snapshot, [job], this.#sentUnits);
    const [answer] = jobs;
    if (answer === undefined) throw new InternalError('one job has one answer');
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
