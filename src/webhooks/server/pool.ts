/**
 * Has reviews answered in a worker thread, which ends when nothing is asked for a while: its code takes memory that a
 * control plane without webhooks need not have.
 *
 *   review() ──▶ queue (bounded, fair) ──one at a time──▶ worker: answer, or why there is none
 */
import { Piscina } from 'piscina';
import { CtlError, errnoOf } from '../../core/errors.ts';
import { createFairQueue, type FairQueue } from '../../core/fair-queue.ts';
import type { AdmissionReply, AdmissionTask, NumberedSettings, SettingsProblem, Webhook } from '../tasks.ts';
import type { InjectionSettings } from '../types.ts';

/** Reviews that wait: more than a second of work, of which one caller may use half. */
const MAX_WAITING = 512;

/** A review takes milliseconds. A worker that takes longer than this hangs, and is terminated. */
const TASK_TIMEOUT_MS = 10_000;

/** Time without reviews after which the thread ends, ms. */
const IDLE_MS = 60_000;

/** A review that ends its worker this many times fails. */
const MAX_ATTEMPTS = 2;

/** Memory of the thread: enough for the largest review many times over. */
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32 };

export interface Review {
  /** The network address that the limits count for. */
  readonly caller: string;
  readonly webhook: Webhook;
  readonly body: Uint8Array;
  /** Aborts when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

export type ReviewReply = Extract<AdmissionReply, { kind: 'answered' | 'unreadable' | 'failed' }>;

export interface AdmissionPool {
  /**
   * Rejects with CtlError: resource_exhausted when too many reviews wait, deadline_exceeded when the worker hangs,
   * internal when it ended each time, unavailable when the pool is closed or the signal aborts.
   */
  review(review: Review): Promise<ReviewReply>;
  /** Whether settings are usable: undefined, or the problem. Rejects with CtlError like `review`. */
  check(settings: InjectionSettings): Promise<SettingsProblem | undefined>;
  /** The settings for all later reviews; undefined: injection refuses Pods. */
  use(settings: InjectionSettings | undefined): void;
  /** The worker threads, for tests that terminate one. */
  readonly threads: readonly { terminate(): Promise<number> }[];
  close(): Promise<void>;
}

export interface AdmissionPoolOptions {
  /** File of the worker's entry point. */
  readonly workerFile: string;
  /** Called when a worker ends by an error. */
  readonly onCrash: (error: unknown) => void;
  readonly maxWaiting?: number;
  readonly taskTimeoutMs?: number;
  readonly idleMs?: number;
}

interface Waiting {
  readonly review: Review;
  readonly resolve: (reply: ReviewReply) => void;
  readonly reject: (error: CtlError) => void;
}

class Pool implements AdmissionPool {
  readonly #options: AdmissionPoolOptions;
  readonly #queue: FairQueue<Waiting>;
  /** Created with the first task. */
  #pool: Piscina<AdmissionTask, AdmissionReply> | undefined;
  #settings: { readonly number: number; readonly settings: InjectionSettings } | undefined;
  #numbers = 0;
  /** Number of the settings that the worker has; undefined: none. */
  #sent: number | undefined;
  #busy = false;
  #closed = false;

  constructor(options: AdmissionPoolOptions) {
    this.#options = options;
    this.#queue = createFairQueue(options.maxWaiting ?? MAX_WAITING);
  }

  review(review: Review): Promise<ReviewReply> {
    if (this.#closed) return Promise.reject(closedError());
    return new Promise((resolve, reject) => {
      if (this.#queue.push(review.caller, { review, resolve, reject })) this.#dispatch();
      else reject(new CtlError('resource_exhausted', `${this.#queue.size} reviews wait; try again later`));
    });
  }

  async check(settings: InjectionSettings): Promise<SettingsProblem | undefined> {
    const reply = await this.#attempts(() => ({ kind: 'check', settings }));
    return reply.kind === 'checked' ? reply.problem : { message: 'the settings could not be checked' };
  }

  use(settings: InjectionSettings | undefined): void {
    this.#settings = settings && { number: ++this.#numbers, settings };
  }

  get threads(): readonly { terminate(): Promise<number> }[] {
    return this.#pool?.threads ?? [];
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const { reject } of this.#queue.take(this.#queue.size)) reject(closedError());
    await this.#pool?.destroy();
  }

  #dispatch(): void {
    while (!this.#busy && !this.#closed) {
      const [waiting] = this.#queue.take(1);
      if (waiting === undefined) return;
      if (waiting.review.signal.aborted) {
        waiting.reject(new CtlError('unavailable', 'the client has gone'));
        continue;
      }
      this.#busy = true;
      void this.#answer(waiting).finally(() => {
        this.#busy = false;
        this.#dispatch();
      });
    }
  }

  async #answer({ review, resolve, reject }: Waiting): Promise<void> {
    const { webhook, body } = review;
    try {
      const task = (): AdmissionTask => ({ kind: 'review', webhook, body, injection: this.#numbered(webhook) });
      let reply = await this.#attempts(task);
      if (reply.kind === 'settings needed') {
        this.#sent = undefined;
        reply = await this.#attempts(task);
      }
      if (reply.kind === 'checked' || reply.kind === 'settings needed')
        reject(new CtlError('internal', `unexpected reply ${reply.kind} to a review`));
      else resolve(reply);
    } catch (error) {
      reject(error instanceof CtlError ? error : new CtlError('internal', 'the review failed', {}, error));
    }
  }

  #numbered(webhook: Webhook): NumberedSettings | undefined {
    const current = this.#settings;
    if (webhook.kind !== 'inject' || current === undefined) return undefined;
    if (this.#sent === current.number) return { number: current.number };
    this.#sent = current.number;
    return current;
  }

  /** Runs a task again when the worker died in it. */
  async #attempts(task: () => AdmissionTask): Promise<AdmissionReply> {
    for (let attempt = 1; ; attempt++) {
      if (this.#closed) throw closedError();
      const timeoutMs = this.#options.taskTimeoutMs ?? TASK_TIMEOUT_MS;
      const timeout = AbortSignal.timeout(timeoutMs);
      try {
        return await runOnce(this.#worker(), task(), timeout);
      } catch (error) {
        this.#sent = undefined;
        if (this.#closed) throw closedError();
        const hung = timeout.aborted;
        this.#options.onCrash(hung ? new CtlError('deadline_exceeded', `took more than ${timeoutMs} ms`) : error);
        if (hung) throw new CtlError('deadline_exceeded', `the review took more than ${timeoutMs / 1000} s`);
        // Another attempt would need as much, while others wait.
        if (errnoOf(error) === 'ERR_WORKER_OUT_OF_MEMORY')
          throw new CtlError('internal', 'the review needs too much memory', {}, error);
        if (attempt === MAX_ATTEMPTS)
          throw new CtlError('internal', `the worker ended ${MAX_ATTEMPTS} times in this review`, {}, error);
      }
    }
  }

  #worker(): Piscina<AdmissionTask, AdmissionReply> {
    if (this.#pool !== undefined) return this.#pool;
    const pool = new Piscina<AdmissionTask, AdmissionReply>({
      filename: this.#options.workerFile,
      name: 'run',
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: this.#options.idleMs ?? IDLE_MS,
      resourceLimits: RESOURCE_LIMITS,
      trackUnmanagedFds: false,
    });
    // A worker died between tasks; without a listener that would end the process.
    pool.on('error', (error) => {
      this.#sent = undefined;
      if (!this.#closed) this.#options.onCrash(error);
    });
    this.#pool = pool;
    return pool;
  }
}

/**
 * Runs a task in the pool. Rejects when the signal aborts and when the thread ends: piscina would leave a task in its
 * queue whose thread ends before it has loaded its code.
 */
async function runOnce(
  pool: Piscina<AdmissionTask, AdmissionReply>,
  task: AdmissionTask,
  timeout: AbortSignal,
): Promise<AdmissionReply> {
  const ended = new AbortController();
  const running = pool.run(task, { signal: AbortSignal.any([timeout, ended.signal]) });
  const threads = pool.threads;
  // Piscina's own listeners come first, and know the reason where the thread had begun the task.
  const onExit = (): void => ended.abort();
  for (const thread of threads) thread.once('exit', onExit);
  try {
    return await running;
  } finally {
    for (const thread of threads) thread.off('exit', onExit);
  }
}

function closedError(): CtlError {
  return new CtlError('unavailable', 'the control plane is stopping');
}

export function createAdmissionPool(options: AdmissionPoolOptions): AdmissionPool {
  return new Pool(options);
}
