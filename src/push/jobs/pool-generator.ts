/**
 * Generation in a pool of worker threads, whose time is shared among namespaces and callers (`job-queue.ts`): a long
 * job is suspended while others wait that have used less time. A job that terminates its worker, hangs or throws is
 * rejected. When it is submitted again, it runs `isolated`: in a thread that is only started for such jobs and ended
 * after them, so that a job that fails again does not delay others.
 */
import { availableParallelism } from 'node:os';
import { setImmediate } from 'node:timers/promises';
import { backoff } from '../../core/backoff.ts';
import { CtlError, InternalError, messageOf } from '../../core/errors.ts';
import type { MeshDelta, MeshSnapshot } from '../../model/index.ts';
import type { PreviewResult } from '../previews/index.ts';
import type { GenerateAnswer } from '../protocol.ts';
import { namesUnknownReads } from '../reads/index.ts';
import {
  anotherPreview,
  type GeneratedJob,
  type Generator,
  type JobSource,
  type Previewer,
  type PreviewSource,
  previewAborted,
  type SubmitOptions,
} from './generator.ts';
import { JobQueue, type Lane } from './job-queue.ts';
import { MeshCopyLog } from './mesh-copy-log.ts';
import { type SlotWork, WorkerSlot } from './worker-slot.ts';

/**
 * A job that cannot be interrupted for this long hangs, and its worker is terminated. The largest meshes take a few
 * seconds.
 */
const JOB_TIMEOUT_MS = 15_000;
/** The same for an isolated job, which delays no other. */
const ISOLATED_TIMEOUT_MS = 60_000;
/** A job that takes longer than this, without the time in which it was suspended, is aborted. */
const MAX_JOB_MS = 60_000;
/** Limit for building a mesh copy from nothing. */
const MESH_COPY_TIMEOUT_MS = 60_000;

/** An update of a mesh copy with more values than this takes the main thread tens of ms: it is sent in its own turn. */
const LARGE_UPDATE = 1000;

/** Pause of a worker whose mesh copy could not be built: the first one and the longest, ms. */
const FIRST_REST_MS = 10;
const MAX_REST_MS = 30_000;

/**
 * The number of workers for this machine. One core is left to the main thread; more than four workers mostly wait for
 * it.
 */
export function defaultWorkers(): number {
  return Math.max(1, Math.min(4, availableParallelism() - 1));
}

export interface PoolOptions {
  /** Number of threads, at least 1. */
  readonly threads: number;
  /** File of the worker's entry point. */
  readonly workerFile: string;
  /** Called for each worker that died without a job or could not be updated, for the log and the metrics. */
  readonly onCrash: (error: unknown) => void;
  /** Calls `run` after this many milliseconds. */
  readonly later: (ms: number, run: () => void) => void;
  /** 0 ≤ x < 1; spreads retries. */
  readonly random: () => number;
  readonly jobTimeoutMs?: number;
}

interface Waiting {
  readonly source: JobSource;
  readonly resolve: (job: GeneratedJob) => void;
  readonly reject: (error: unknown) => void;
  readonly isolated: boolean;
  /** Where the job was interrupted. */
  suspended: { readonly slot: WorkerSlot; readonly id: number } | undefined;
  /** Time spent generating, ms. */
  milliseconds: number;
  /** Whether its answer referred to units that the main thread no longer had, so that the job was repeated. */
  repeated: boolean;
}

interface WaitingPreview {
  readonly source: PreviewSource;
  readonly resolve: (result: PreviewResult) => void;
  readonly reject: (error: unknown) => void;
  /** Where it was interrupted. */
  suspended: { readonly slot: WorkerSlot; readonly id: number } | undefined;
}

type Done = Extract<GenerateAnswer, { kind: 'done' }>;

/** The outcome of a worker's run of a job: `served`: the job is settled; otherwise it waits again. */
type Outcome = 'served' | 'suspended' | 'again' | 'unhealthy';

function closedError(): CtlError {
  return new CtlError('unavailable', 'the generation pool is closed');
}

export class PoolGenerator implements Generator, Previewer {
  readonly #options: PoolOptions;
  readonly #slots: readonly WorkerSlot[];
  /** Waiting jobs; isolated ones wait in a queue of their own. */
  readonly #queue = new JobQueue<Waiting>();
  readonly #suspects = new JobQueue<Waiting>();
  #lastId = 0;
  readonly #waiting = new Map<JobSource, Waiting>();
  /** The thread of isolated jobs; exists while there are any. */
  #isolated: WorkerSlot | undefined;
  /** Undefined until there is a snapshot; jobs wait for it. */
  #log: MeshCopyLog | undefined;
  /** One at a time: a preview keeps a candidate of the mesh in memory. */
  #preview: WaitingPreview | undefined;
  /** The last turn of the event loop in which a large update is sent. */
  #turn: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#slots = Array.from({ length: options.threads }, () => this.#slot());
  }

  #slot(): WorkerSlot {
    return new WorkerSlot(this.#options.workerFile, (error) => {
      if (!this.#closed) this.#options.onCrash(error);
    });
  }

  /** Sets the first snapshot. The threads start earlier, and load their code in the meantime. */
  begin(snapshot: MeshSnapshot): void {
    this.#log = new MeshCopyLog(snapshot);
    this.#dispatch();
  }

  /** Makes the workers build their mesh copies before the first job, so that the first proxies do not wait for that. */
  prepare(): void {
    const log = this.#log;
    if (log === undefined) return;
    for (const slot of this.#slots) if (!slot.busy) void this.#work(slot, () => this.#update(slot, log));
  }

  /** The worker threads, for tests that end one. */
  get threads(): readonly { terminate(): Promise<number> }[] {
    return this.#slots.flatMap((slot) => slot.threads);
  }

  advance(snapshot: MeshSnapshot, delta: MeshDelta): void {
    this.#log?.append(snapshot, delta);
  }

  submit(source: JobSource, { isolated = false }: SubmitOptions = {}): Promise<GeneratedJob> {
    if (this.#closed) return Promise.reject(closedError());
    return new Promise((resolve, reject) => {
      const unbegun = { suspended: undefined, milliseconds: 0, repeated: false };
      this.#wait({ source, resolve, reject, isolated, ...unbegun });
      this.#dispatch();
    });
  }

  #queueOf({ isolated }: Waiting): JobQueue<Waiting> {
    return isolated ? this.#suspects : this.#queue;
  }

  #wait(waiting: Waiting): void {
    const { source, suspended, repeated } = waiting;
    this.#waiting.set(source, waiting);
    this.#queueOf(waiting).add(waiting, source.lanes(), { begun: suspended !== undefined || repeated });
  }

  preview(source: PreviewSource, signal: AbortSignal): Promise<PreviewResult> {
    if (this.#closed) return Promise.reject(closedError());
    if (this.#preview !== undefined) return Promise.reject(anotherPreview());
    return new Promise((resolve, reject) => {
      const waiting: WaitingPreview = { source, resolve, reject, suspended: undefined };
      this.#preview = waiting;
      signal.addEventListener('abort', () => {
        reject(previewAborted());
        if (this.#preview !== waiting) return;
        this.#preview = undefined;
        waiting.suspended?.slot.drop(waiting.suspended.id);
        // A worker that runs it stops after the unit in progress.
        this.#dispatch();
      });
      this.#dispatch();
    });
  }

  released(scopes: readonly string[]): void {
    for (const slot of this.#slots) slot.released(scopes);
  }

  withdraw(source: JobSource): boolean {
    const waiting = this.#waiting.get(source);
    if (waiting === undefined) return false;
    this.#waiting.delete(source);
    waiting.suspended?.slot.drop(waiting.suspended.id);
    return this.#queueOf(waiting).remove(waiting);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#waiting.clear();
    this.#preview?.reject(closedError());
    this.#preview = undefined;
    for (const { reject } of [...this.#queue.drain(), ...this.#suspects.drain()]) reject(closedError());
    const slots = this.#isolated === undefined ? this.#slots : [...this.#slots, this.#isolated];
    await Promise.all(slots.map((slot) => slot.close()));
  }

  #dispatch(): void {
    const log = this.#log;
    if (log === undefined || this.#closed) return;
    for (let served = true; served && this.#queue.size > 0; ) {
      served = false;
      for (const slot of this.#freeSlots())
        if (this.#serve(slot, log, this.#queue, this.#options.jobTimeoutMs ?? JOB_TIMEOUT_MS)) served = true;
    }
    this.#dispatchPreview(log);
    for (const slot of this.#slots) slot.contended = this.#isContended(slot);
    this.#dispatchIsolated(log);
  }

  /** True when others wait for what a worker does. */
  #isContended({ lane, isPreviewing }: WorkerSlot): boolean {
    if (isPreviewing) return this.#queue.size > 0 || this.#preview === undefined;
    return lane !== undefined && this.#queue.hasOthersThan(lane);
  }

  /** Has an idle worker begin or continue the preview, which is no job's turn. */
  #dispatchPreview(log: MeshCopyLog): void {
    const waiting = this.#preview;
    if (waiting === undefined || this.#queue.size > 0 || this.#slots.some(({ isPreviewing }) => isPreviewing)) return;
    const { suspended } = waiting;
    const slot = this.#freeSlots().find((free) => suspended === undefined || free === suspended.slot);
    if (slot === undefined) return;
    slot.isPreviewing = true;
    void this.#work(slot, async () => {
      const healthy = slot.version > 0 || (await this.#update(slot, log));
      const outcome = healthy ? await this.#runPreview(slot, log, waiting) : 'unhealthy';
      slot.isPreviewing = false;
      return outcome !== 'unhealthy';
    });
  }

  async #runPreview(slot: WorkerSlot, log: MeshCopyLog, waiting: WaitingPreview): Promise<Outcome> {
    if (this.#preview !== waiting) return 'served';
    const id = waiting.suspended?.id ?? ++this.#lastId;
    const end = (settle: () => void): Outcome => {
      if (this.#preview === waiting) this.#preview = undefined;
      settle();
      return 'served';
    };
    try {
      const work: SlotWork =
        waiting.suspended === undefined ? { preview: waiting.source.takePreview().task, id } : { resumed: id };
      const answer = await slot.run(log, work, this.#options.jobTimeoutMs ?? JOB_TIMEOUT_MS);
      if (answer.kind === 'behind') return 'unhealthy';
      this.#trim(log);
      if (answer.kind === 'previewed') return end(() => waiting.resolve(answer.result));
      if (answer.kind === 'failed') throw new InternalError(answer.message);
      waiting.suspended = answer.kind === 'suspended' ? { slot, id } : undefined;
      // Its caller is gone.
      if (this.#preview !== waiting) slot.drop(id);
      return 'suspended';
    } catch (error) {
      if (slot.version === 0 && !this.#closed) waiting.source.onWorkerLost();
      return end(() =>
        waiting.reject(this.#closed ? closedError() : new CtlError('internal', messageOf(error), {}, error)),
      );
    }
  }

  #dispatchIsolated(log: MeshCopyLog): void {
    const slot = this.#isolated;
    if (slot?.busy === true) slot.contended = slot.lane !== undefined && this.#suspects.hasOthersThan(slot.lane);
    else if (this.#suspects.size > 0) {
      this.#isolated ??= this.#slot();
      this.#serve(this.#isolated, log, this.#suspects, this.#options.jobTimeoutMs ?? ISOLATED_TIMEOUT_MS);
    } else if (slot !== undefined) {
      void slot.close();
      this.#isolated = undefined;
    }
  }

  /** The idle workers; that with the most recent mesh copy first. */
  #freeSlots(): readonly WorkerSlot[] {
    return this.#slots.filter(({ busy }) => !busy).sort((a, b) => b.version - a.version);
  }

  /** Runs work on a worker, which afterwards is idle again, or pauses when the work reports that it is not healthy. */
  async #work(slot: WorkerSlot, work: () => Promise<boolean>): Promise<void> {
    slot.busy = true;
    const healthy = await work();
    slot.failures = healthy ? 0 : slot.failures + 1;
    const free = (): void => {
      slot.busy = false;
      this.#dispatch();
    };
    if (healthy) free();
    else this.#options.later(backoff(slot.failures, FIRST_REST_MS, MAX_REST_MS, this.#options.random), free);
  }

  /** Updates a worker's mesh copy; false when that fails. */
  async #update(slot: WorkerSlot, log: MeshCopyLog): Promise<boolean> {
    try {
      await this.#turnFor(slot, log);
      return (await slot.run(log, { jobs: [] }, MESH_COPY_TIMEOUT_MS)).kind === 'done';
    } catch (error) {
      if (!this.#closed) this.#options.onCrash(error);
      return false;
    }
  }

  /** Resolves at once if a worker lacks little; else in a turn of the event loop without another large update. */
  async #turnFor({ version }: WorkerSlot, log: MeshCopyLog): Promise<void> {
    if (log.lacking(version) <= LARGE_UPDATE) return;
    this.#turn = this.#turn.then(() => setImmediate());
    await this.#turn;
  }

  /** Has a worker serve the next job that it may; false when there is none. */
  #serve(slot: WorkerSlot, log: MeshCopyLog, queue: JobQueue<Waiting>, timeoutMs: number): boolean {
    const next = queue.next(({ suspended }) => suspended === undefined || suspended.slot === slot);
    if (next === undefined) return false;
    const { item: waiting, lane } = next;
    this.#waiting.delete(waiting.source);
    slot.lane = lane;
    void this.#work(slot, async () => {
      // A mesh copy is built in a separate task, so that a failure is not attributed to the job. Updates are sent with
      // the job.
      const healthy = slot.version > 0 || (await this.#update(slot, log));
      if (healthy) await this.#turnFor(slot, log);
      const outcome = healthy ? await this.#run(slot, log, waiting, lane, timeoutMs) : 'unhealthy';
      slot.lane = undefined;
      if (outcome === 'served') return true;
      if (this.#closed) waiting.reject(closedError());
      else this.#wait(waiting);
      return outcome !== 'unhealthy';
    });
    return true;
  }

  /** Runs a job until it is complete, or others wait. Its time is charged to its lane, even if it fails. */
  async #run(slot: WorkerSlot, log: MeshCopyLog, waiting: Waiting, lane: Lane, timeoutMs: number): Promise<Outcome> {
    const queue = this.#queueOf(waiting);
    const id = waiting.suspended?.id ?? ++this.#lastId;
    const started = performance.now();
    // The worker must send everything that the answer refers to.
    if (waiting.repeated) slot.receivedUnits = undefined;
    try {
      const work: SlotWork =
        waiting.suspended === undefined ? { jobs: [waiting.source.takeJob()], id } : { resumed: waiting.suspended.id };
      const answer = await slot.run(log, work, timeoutMs);
      if (answer.kind === 'behind' || answer.kind === 'previewed') return 'unhealthy';
      if (answer.kind === 'lost') {
        // Its worker died in the meantime.
        Object.assign(waiting, { suspended: undefined, milliseconds: 0 });
        return 'again';
      }
      queue.charge(lane, answer.milliseconds);
      waiting.milliseconds += answer.milliseconds;
      if (answer.kind === 'suspended') return this.#suspended(slot, waiting, id);
      this.#trim(log);
      if (answer.kind === 'failed') throw new InternalError(answer.message);
      if (this.#answered(slot, waiting, answer)) return 'served';
      if (waiting.repeated) throw new InternalError('a worker names units by numbers that it had to discard');
      // The answer names units that were freed here, and its own were not stored: this worker sends all again, too.
      slot.receivedUnits = undefined;
      Object.assign(waiting, { suspended: undefined, repeated: true });
      return 'again';
    } catch (error) {
      // A worker that died or was terminated has reported no time.
      if (slot.version === 0) queue.charge(lane, performance.now() - started);
      // Numbers that were sent with the failed answer may not have been stored: the worker must send everything again.
      slot.receivedUnits = undefined;
      waiting.reject(this.#closed ? closedError() : new CtlError('internal', messageOf(error), {}, error));
      return 'served';
    }
  }

  #suspended(slot: WorkerSlot, waiting: Waiting, id: number): Outcome {
    if (waiting.milliseconds <= MAX_JOB_MS) {
      waiting.suspended = { slot, id };
      return 'suspended';
    }
    slot.drop(id);
    throw new CtlError('deadline_exceeded', `took longer than ${MAX_JOB_MS / 1000} s`);
  }

  /** Resolves a job with its result; returns false if the answer refers to a unit that was freed. */
  #answered(slot: WorkerSlot, waiting: Waiting, answer: Done): boolean {
    const [job] = answer.jobs;
    const { receivedUnits } = slot;
    if (job === undefined || receivedUnits === undefined) throw new InternalError('a task of one job has one answer');
    const reads = receivedUnits.reads.receive(answer.reads);
    // The engine could not undo a part of an answer.
    if (namesUnknownReads(job, reads)) throw new InternalError('a worker names reads that it has not sent');
    const recalled = receivedUnits.recall(answer.jobs);
    if (recalled === undefined) return false;
    const { generatedFrom: version, bytes } = answer;
    const { milliseconds } = waiting;
    waiting.resolve({ version, answer: job, bytes, recalled, reads, receivedUnits, milliseconds });
    return true;
  }

  /** Drops what every worker has. Workers without a mesh copy get everything, and need no log. */
  #trim(log: MeshCopyLog): void {
    const versions = this.#slots.map(({ version }) => version).filter((version) => version > 0);
    if (versions.length > 0) log.trim(Math.min(...versions));
  }
}
