/**
 * Signs in worker threads: piscina pools of one thread each, so that it is known which thread has the key. A thread
 * that dies is restarted by piscina and gets the key again, and its jobs are repeated.
 *
 *   sign() ──▶ queue (bounded, fair) ──batch──▶ slot ──▶ worker: certificate, or the reason why there is none
 */
import { availableParallelism } from 'node:os';
import { Piscina } from 'piscina';
import { CtlError } from '../../core/errors.ts';
import { createFairQueue, type FairQueue } from '../../core/fairness/fair-queue.ts';
import type { SigningMaterial } from './root-source.ts';
import type { SignAnswer, SignJob, SignResult, SignTask } from './sign-protocol.ts';

/**
 * The maximum number of queued requests of all callers: some seconds of work. Half of them may be of one service
 * account, for a fleet of thousands of proxies that reconnect at once.
 */
const MAX_WAITING = 16_384;

/** Requests per message to a worker: enough to make messages cheap, few enough for a short batch. */
const BATCH = 8;

/** A job fails after its worker has crashed this many times. */
const MAX_ATTEMPTS = 3;

/** A batch takes milliseconds; a worker that takes longer than this hangs, and is terminated. */
const TASK_TIMEOUT_MS = 20_000;

export type Signed = Extract<SignResult, { kind: 'signed' }> & {
  /** The path of the signing certificate, as in SigningMaterial. */
  readonly path: readonly string[];
};

export interface SigningPool {
  /**
   * Rejects with CtlError: invalid_argument for an invalid request, resource_exhausted when too many of the same
   * identity wait, unavailable when closed or without a usable key, internal when signing failed.
   */
  sign(job: SignJob): Promise<Signed>;
  /** Gives the workers another key. Requests in progress may still be signed with the former one. */
  use(material: SigningMaterial): void;
  /** The worker threads, so that tests can terminate one. */
  readonly threads: readonly { terminate(): Promise<number> }[];
  close(): Promise<void>;
}

export interface SigningPoolOptions {
  /** File of the worker's entry point. */
  readonly workerFile: string;
  /** Number of threads, at least 1; the default depends on the machine. */
  readonly threads?: number | undefined;
  readonly material: SigningMaterial;
  /** Reads the key from its store: the main thread does not keep it. */
  readonly reload: () => Promise<SigningMaterial>;
  /** Called for each crash of a worker. */
  readonly onCrash: (error: unknown) => void;
  readonly maxWaiting?: number | undefined;
}

interface Waiting {
  readonly job: SignJob;
  readonly resolve: (signed: Signed) => void;
  readonly reject: (error: unknown) => void;
  attempts: number;
}

interface Slot {
  readonly pool: Piscina<SignTask, SignAnswer>;
  /** The key to send with the next task; deleted here afterwards. */
  pending: SigningMaterial | undefined;
  /** The certificate path of the worker's key; undefined when it has none. */
  path: readonly string[] | undefined;
  busy: boolean;
}

/** One core is left for the main thread; two threads sign more than 5,000 certificates a second. */
function threadsOfMachine(): number {
  return Math.max(1, Math.min(2, availableParallelism() - 1));
}

export function createSigningPool(options: SigningPoolOptions): SigningPool {
  const pool = new Pool(options);
  pool.start();
  return pool;
}

class Pool implements SigningPool {
  readonly #options: Omit<SigningPoolOptions, 'material'>;
  readonly #queue: FairQueue<Waiting>;
  /** Jobs to repeat before all others. */
  readonly #again: Waiting[] = [];
  readonly #slots: readonly Slot[];
  #closed = false;

  constructor({ material, ...options }: SigningPoolOptions) {
    this.#options = options;
    this.#queue = createFairQueue<Waiting>(options.maxWaiting ?? MAX_WAITING);
    this.#slots = Array.from({ length: options.threads ?? threadsOfMachine() }, () => this.#createSlot(material));
  }

  /** Starts the workers and sends them the key. */
  start(): void {
    this.#dispatch();
  }

  sign(job: SignJob): Promise<Signed> {
    if (this.#closed) return Promise.reject(closedError());
    return new Promise((resolve, reject) => {
      if (this.#queue.push(laneOf(job), { job, resolve, reject, attempts: 0 })) {
        this.#dispatch();
        return;
      }
      const waiting = `${this.#waitingCount()} certificate requests are waiting`;
      const message = `${waiting} and this identity has used its share of the queue; try again later`;
      reject(new CtlError('resource_exhausted', message));
    });
  }

  use(material: SigningMaterial): void {
    for (const slot of this.#slots) slot.pending = material;
    this.#dispatch();
  }

  get threads(): readonly { terminate(): Promise<number> }[] {
    return this.#slots.flatMap(({ pool }) => pool.threads);
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const waiting of [...this.#again.splice(0), ...this.#queue.take(this.#queue.size)])
      waiting.reject(closedError());
    for (const slot of this.#slots) slot.pending = undefined;
    await Promise.all(this.#slots.map(({ pool }) => pool.destroy()));
  }

  #createSlot(material: SigningMaterial): Slot {
    const pool = new Piscina<SignTask, SignAnswer>({
      filename: this.#options.workerFile,
      name: 'run',
      minThreads: 1,
      maxThreads: 1,
      idleTimeout: Number.POSITIVE_INFINITY,
      trackUnmanagedFds: false,
    });
    // A worker died between tasks; without a listener that would end the process.
    pool.on('error', (error) => {
      if (!this.#closed) this.#options.onCrash(error);
    });
    return { pool, pending: material, path: undefined, busy: false };
  }

  #waitingCount(): number {
    return this.#again.length + this.#queue.size;
  }

  #dispatch(): void {
    for (const slot of this.#slots) {
      if (this.#closed || slot.busy || (this.#waitingCount() === 0 && slot.pending === undefined)) continue;
      slot.busy = true;
      void this.#runSlot(slot).finally(() => {
        slot.busy = false;
        this.#dispatch();
      });
    }
  }

  /**
   * Jobs that were in progress when a worker died are sent alone, so that the one that caused it does not affect others
   * again.
   */
  #takeBatch(): Waiting[] {
    if (this.#again.length === 0) return this.#queue.take(BATCH);
    const alone = this.#again.findIndex(({ attempts }) => attempts > 0);
    if (alone === 0) return this.#again.splice(0, 1);
    return this.#again.splice(0, Math.min(BATCH, alone < 0 ? BATCH : alone));
  }

  async #runSlot(slot: Slot): Promise<void> {
    const batch = this.#takeBatch();
    try {
      if (slot.pending === undefined && slot.path === undefined) {
        const material = await this.#options.reload();
        slot.pending ??= material;
      }
    } catch (error) {
      for (const waiting of batch) waiting.reject(unreadableKey(error));
      return;
    }
    for (const waiting of batch) waiting.attempts++;
    try {
      this.#finish(slot, batch, await runTask(slot, batch));
    } catch (error) {
      slot.path = undefined;
      if (!this.#closed) this.#options.onCrash(error);
      this.#retry(batch, error);
    }
  }

  #finish(slot: Slot, batch: readonly Waiting[], answer: SignAnswer): void {
    const { path } = slot;
    if (answer.kind === 'keyless' || path === undefined) {
      // The worker was restarted between tasks: no job of this batch caused that.
      slot.path = undefined;
      for (const waiting of batch) waiting.attempts--;
      this.#again.unshift(...batch);
      return;
    }
    for (const [index, waiting] of batch.entries()) settle(waiting, answer.results[index], path);
  }

  #retry(batch: readonly Waiting[], cause: unknown): void {
    const left = batch.filter((waiting) => {
      if (this.#closed) waiting.reject(closedError());
      else if (waiting.attempts < MAX_ATTEMPTS) return true;
      else waiting.reject(new CtlError('internal', `signing failed ${MAX_ATTEMPTS} times`, {}, cause));
      return false;
    });
    this.#again.unshift(...left);
  }
}

async function runTask(slot: Slot, batch: readonly Waiting[]): Promise<SignAnswer> {
  const { pending } = slot;
  slot.pending = undefined;
  const jobs = batch.map(({ job }) => job);
  const task = pending === undefined ? { jobs } : { adopt: issuerOf(pending), jobs };
  const answer = await slot.pool.run(task, { signal: AbortSignal.timeout(TASK_TIMEOUT_MS) });
  if (pending !== undefined) slot.path = pending.path;
  return answer;
}

/** The lane of a job: its identity, or that of the mesh's own certificates. */
function laneOf(job: SignJob): string {
  return job.kind === 'workload' ? job.uri : '';
}

export function issuerOf({ key, path: [certificate = ''], chainEnd }: SigningMaterial): NonNullable<SignTask['adopt']> {
  return { key, certificate, chainEnd };
}

function settle(waiting: Waiting, result: SignResult | undefined, path: readonly string[]): void {
  if (result?.kind === 'signed') waiting.resolve({ ...result, path });
  else waiting.reject(errorOf(result));
}

export function errorOf(result: Exclude<SignResult, { kind: 'signed' }> | undefined): CtlError {
  switch (result?.kind) {
    case 'refused':
      return new CtlError('invalid_argument', result.message);
    case 'expired':
      return new CtlError('unavailable', "the certificate authority's own certificate has expired");
    case 'not yet valid': {
      const [from, now] = [result.notBefore, result.now].map((ms) => new Date(ms).toISOString());
      const message =
        `the certificate authority's own certificate is valid from ${from} on, ` +
        `but the time of this machine is ${now}`;
      return new CtlError('unavailable', message);
    }
    default:
      return new CtlError('internal', `signing failed: ${result?.message ?? 'no answer'}`);
  }
}

/** @param cause why the key cannot be read from its store */
export function unreadableKey(cause: unknown): CtlError {
  return new CtlError('unavailable', "the certificate authority's key cannot be read at present", {}, cause);
}

function closedError(): CtlError {
  return new CtlError('unavailable', 'the certificate authority is closed');
}
