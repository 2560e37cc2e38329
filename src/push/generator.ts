/**
 * Where generation runs: in a pool of worker threads, each a piscina pool of one, so that it is known which replica stands where
 * and what it has to be told; or, with no workers, on the main thread between other work.
 *
 * A worker's crash is a retried job: the thread is started anew by piscina, answers `behind`, and is told everything.
 */
import { availableParallelism } from 'node:os';
import { Piscina } from 'piscina';
import type { GenerateAnswer, GenerateJob, GenerateTask, JobAnswer } from '../../workers/protocol.ts';
import { CtlError } from '../core/errors.ts';
import type { Snapshot } from '../model/types.ts';
import type { ResourceChange } from '../resources/types.ts';
import { ReplicaLog } from './replica-log.ts';
import { runJobs } from './run-jobs.ts';
import { HeardUnits, type NumberedUnits, SaidUnits } from './unit-numbers.ts';

/** A job's outcome and the snapshot version that it was generated from. */
export interface GeneratedJob {
  readonly version: number;
  readonly answer: JobAnswer;
  readonly bytes: ArrayBuffer;
  /** The units that the answer only names. */
  readonly recalled: NumberedUnits;
  /** Where the units are to be noted that it tells. */
  readonly heard: HeardUnits;
  /** Time spent generating, milliseconds. */
  readonly milliseconds: number;
}

/**
 * What has work to do. The job is taken when its turn has come, together with the snapshot that it is generated from, and taken again
 * when it has to be repeated: a job that was written down earlier would miss what later snapshots changed beside it.
 */
export interface JobSource {
  readonly key: string;
  takeJob(): GenerateJob;
}

export interface Generator {
  /** Tells of the next snapshot. Jobs taken from now on are generated from it or a later one. */
  advance(snapshot: Snapshot, changes: readonly ResourceChange[]): void;
  /** Rejects with CtlError `internal` when the job failed repeatedly, `unavailable` when closed. */
  submit(source: JobSource): Promise<GeneratedJob>;
  close(): Promise<void>;
}

/** A job that kills its worker this many times is given up: its view keeps what it has. */
const MAX_ATTEMPTS = 3;

/** A job that takes longer hangs: its worker is ended, as if it had crashed. The largest meshes take a few seconds. */
const JOB_TIMEOUT_MS = 60_000;

/** Workers for this machine: one core stays with the main thread; beyond four more of them wait than work (node-limits: fan-out). */
export function defaultWorkers(): number {
  return Math.max(1, Math.min(4, availableParallelism() - 1));
}

interface Waiting {
  readonly source: JobSource;
  readonly resolve: (job: GeneratedJob) => void;
  readonly reject: (error: unknown) => void;
  attempts: number;
}

interface Slot {
  readonly pool: Piscina<GenerateTask, GenerateAnswer>;
  /** Version of the worker's replica; 0 when it has nothing. */
  version: number;
  /** Units that the worker need not tell again; undefined: it is to forget what it has said. */
  heard: HeardUnits | undefined;
  busy: boolean;
}

export interface PoolOptions {
  /** Number of threads, at least 1. */
  readonly threads: number;
  /** File of the worker's entry point. */
  readonly workerFile: string;
  /** Told of each crash, for the log and the metrics. */
  readonly onCrash: (error: unknown) => void;
  readonly jobTimeoutMs?: number;
}

export class PoolGenerator implements Generator {
  readonly #slots: readonly Slot[];
  /** Undefined until there is a snapshot to generate from; jobs wait for it. */
  #log: ReplicaLog | undefined;
  readonly #onCrash: (error: unknown) => void;
  readonly #jobTimeoutMs: number;
  readonly #queue: Waiting[] = [];
  #closed = false;

  constructor(options: PoolOptions) {
    this.#onCrash = options.onCrash;
    this.#jobTimeoutMs = options.jobTimeoutMs ?? JOB_TIMEOUT_MS;
    this.#slots = Array.from({ length: options.threads }, () => this.#slot(options.workerFile));
  }

  /** Says what is generated from. The threads start before it is known: meanwhile they load their code. */
  begin(snapshot: Snapshot): void {
    this.#log = new ReplicaLog(snapshot);
    this.#dispatch();
  }

  /** Has the workers build their replicas before there is work, so that the first proxies do not wait for it. */
  prepare(): void {
    const log = this.#log;
    if (log === undefined) return;
    for (const slot of this.#slots) if (!slot.busy) void this.#prepare(slot, log);
  }

  async #prepare(slot: Slot, log: ReplicaLog): Promise<void> {
    slot.busy = true;
    try {
      slot.version = (await this.#task(slot, log, [])).version;
    } catch (error) {
      if (!this.#closed) this.#onCrash(error);
    }
    slot.busy = false;
    this.#dispatch();
  }

  #task(slot: Slot, log: ReplicaLog, jobs: GenerateJob[]): Promise<GenerateAnswer> {
    // One that has nothing has said nothing.
    const forget = slot.heard === undefined || slot.version === 0;
    if (forget) slot.heard = new HeardUnits();
    const task = { update: log.since(slot.version), jobs, ...(forget && { forget: true as const }) };
    return slot.pool.run(task, { signal: AbortSignal.timeout(this.#jobTimeoutMs) });
  }

  #slot(filename: string): Slot {
    const pool = new Piscina<GenerateTask, GenerateAnswer>({
      filename,
      name: 'run',
      minThreads: 1,
      maxThreads: 1,
      idleTimeout: Number.POSITIVE_INFINITY,
      trackUnmanagedFds: false,
    });
    // A worker that dies between jobs; nobody listening would end the process.
    pool.on('error', (error) => {
      if (!this.#closed) this.#onCrash(error);
    });
    return { pool, version: 0, heard: undefined, busy: false };
  }

  /** The worker threads, for tests that kill one. */
  get threads(): readonly { terminate(): Promise<number> }[] {
    return this.#slots.flatMap((slot) => slot.pool.threads);
  }

  advance(snapshot: Snapshot, changes: readonly ResourceChange[]): void {
    this.#log?.append(snapshot, changes);
  }

  submit(source: JobSource): Promise<GeneratedJob> {
    if (this.#closed) return Promise.reject(new CtlError('unavailable', 'the generation pool is closed'));
    return new Promise((resolve, reject) => {
      this.#queue.push({ source, resolve, reject, attempts: 0 });
      this.#dispatch();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const waiting of this.#queue.splice(0)) {
      waiting.reject(new CtlError('unavailable', 'the generation pool is closed'));
    }
    await Promise.all(this.#slots.map((slot) => slot.pool.destroy()));
  }

  #dispatch(): void {
    const log = this.#log;
    while (log !== undefined && this.#queue.length > 0 && !this.#closed) {
      const slot = this.#freeSlot();
      const waiting = slot && this.#queue.shift();
      if (slot === undefined || waiting === undefined) return;
      slot.busy = true;
      void this.#run(slot, log, waiting).finally(() => {
        slot.busy = false;
        this.#dispatch();
      });
    }
  }

  /** The free worker that has least to catch up with. */
  #freeSlot(): Slot | undefined {
    let best: Slot | undefined;
    for (const slot of this.#slots) if (!slot.busy && slot.version > (best?.version ?? -1)) best = slot;
    return best;
  }

  async #run(slot: Slot, log: ReplicaLog, waiting: Waiting): Promise<void> {
    waiting.attempts++;
    try {
      const answer = await this.#task(slot, log, [waiting.source.takeJob()]);
      if (answer.kind === 'behind') {
        slot.version = 0;
        this.#retry(waiting, new Error('the worker lost its replica'));
        return;
      }
      slot.version = answer.version;
      this.#trim(log);
      if (answer.kind === 'failed') {
        // It would fail again: generation is deterministic.
        waiting.reject(new CtlError('internal', answer.message));
        return;
      }
      const [job] = answer.jobs;
      const { heard } = slot;
      if (job === undefined || heard === undefined) throw new TypeError('a task of one job has one answer');
      const recalled = heard.recall(answer.jobs);
      if (recalled === undefined) {
        // No fault of the job, and it cannot happen again: all that the worker then names was told for this job.
        waiting.attempts--;
        slot.heard = undefined;
        this.#queue.unshift(waiting);
        return;
      }
      const { version, bytes, milliseconds } = answer;
      waiting.resolve({ version, answer: job, bytes, recalled, heard, milliseconds });
    } catch (error) {
      slot.version = 0;
      if (!this.#closed) this.#onCrash(error);
      this.#retry(waiting, error);
    }
  }

  /** Workers that have nothing are told everything, and need no log. */
  #trim(log: ReplicaLog): void {
    const versions = this.#slots.map(({ version }) => version).filter((version) => version > 0);
    if (versions.length > 0) log.trim(Math.min(...versions));
  }

  #retry(waiting: Waiting, cause: unknown): void {
    if (this.#closed) waiting.reject(new CtlError('unavailable', 'the generation pool is closed'));
    else if (waiting.attempts < MAX_ATTEMPTS) this.#queue.unshift(waiting);
    else {
      const message = `generating ${waiting.source.key} failed ${MAX_ATTEMPTS} times`;
      waiting.reject(new CtlError('internal', message, {}, cause));
    }
  }
}

/** Generates on the main thread, one job per turn of the event loop. */
export class InlineGenerator implements Generator {
  #snapshot: Snapshot;
  #said = new SaidUnits();
  #heard = new HeardUnits();
  #closed = false;

  constructor(snapshot: Snapshot) {
    this.#snapshot = snapshot;
  }

  advance(snapshot: Snapshot): void {
    this.#snapshot = snapshot;
  }

  async submit(source: JobSource): Promise<GeneratedJob> {
    await new Promise((resolve) => setImmediate(resolve));
    if (this.#closed) throw new CtlError('unavailable', 'generation is closed');
    const job = source.takeJob();
    const made = this.#run(job);
    if (made !== undefined) return made;
    this.#said = new SaidUnits();
    this.#heard = new HeardUnits();
    const afresh = this.#run(job);
    if (afresh === undefined) throw new TypeError('nothing said before, but a unit was not told');
    return afresh;
  }

  /** Undefined when the answer names a unit that is gone. */
  #run(job: GenerateJob): GeneratedJob | undefined {
    const started = performance.now();
    const { version } = this.#snapshot;
    const { jobs, bytes } = runJobs(this.#snapshot, [job], this.#said);
    const [answer] = jobs;
    if (answer === undefined) throw new TypeError('one job has one answer');
    const heard = this.#heard;
    const recalled = heard.recall(jobs);
    if (recalled === undefined) return undefined;
    return { version, answer, bytes, recalled, heard, milliseconds: performance.now() - started };
  }

  close(): Promise<void> {
    this.#closed = true;
    return Promise.resolve();
  }
}
