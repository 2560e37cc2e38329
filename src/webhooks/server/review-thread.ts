/**
 * A worker thread that reads reviews, one at a time. It is started with the first task, and again when it has died. A
 * task that dies with it is repeated once; a task that takes too long ends the thread.
 */
import { Piscina } from 'piscina';
import { CtlError, errnoOf } from '../../core/errors.ts';
import type { AdmissionReply, AdmissionTask } from '../tasks.ts';

/**
 * A review takes milliseconds. A thread that takes longer than this hangs, and is terminated. API servers wait for
 * 10 s, so that a review that waited for this one and for the next thread is answered in time.
 */
const TASK_TIMEOUT_MS = 5_000;

/** Time for a thread to load its code: 5 s on a twentieth of a core. */
const LOAD_TIMEOUT_MS = 60_000;

/** A task that ends its thread this many times fails. */
const MAX_ATTEMPTS = 2;

/** Memory of the thread: enough for the largest review many times over. */
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32 };

export interface ReviewThreadOptions {
  /** File of the worker's entry point. */
  readonly workerFile: string;
  /** Time without tasks after which the thread ends, ms; Infinity: never. */
  readonly idleMs: number;
  readonly taskTimeoutMs?: number;
  /** Called when the thread ends by an error. */
  readonly onCrash: (error: unknown) => void;
  /** Called when a thread that had loaded its code has ended. */
  readonly onEnded?: () => void;
}

export class ReviewThread {
  readonly #options: ReviewThreadOptions;
  /** Created with the first task. */
  #pool: Piscina<AdmissionTask, AdmissionReply> | undefined;
  /** The thread that has loaded its code. */
  #loaded: unknown;
  #closed = false;

  constructor(options: ReviewThreadOptions) {
    this.#options = options;
  }

  /** For tests that terminate it. */
  get threads(): readonly { terminate(): Promise<number> }[] {
    return this.#pool?.threads ?? [];
  }

  /**
   * Runs a task. Rejects with CtlError: deadline_exceeded when the thread hangs, internal when it ended each time,
   * unavailable when it is closed.
   */
  async run(task: () => AdmissionTask): Promise<AdmissionReply> {
    const { taskTimeoutMs = TASK_TIMEOUT_MS } = this.#options;
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#load();
        return await this.#runOnce(task(), taskTimeoutMs);
      } catch (error) {
        if (error instanceof CtlError) throw error;
        // Another attempt would need as much memory while other reviews wait.
        if (errnoOf(error) === 'ERR_WORKER_OUT_OF_MEMORY')
          throw new CtlError('internal', 'the review needs too much memory', {}, error);
        if (attempt === MAX_ATTEMPTS)
          throw new CtlError('internal', `the worker ended ${MAX_ATTEMPTS} times during this review`, {}, error);
      }
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#pool?.destroy();
  }

  /** Apart from the first task, so that the time for it does not count. */
  async #load(): Promise<void> {
    if (this.#loaded !== undefined && this.#pool?.threads[0] === this.#loaded) return;
    await this.#runOnce({ kind: 'load' }, LOAD_TIMEOUT_MS);
    const [thread] = this.#pool?.threads ?? [];
    if (thread === this.#loaded) return;
    this.#loaded = thread;
    thread?.once('exit', () => {
      if (!this.#closed) this.#options.onEnded?.();
    });
  }

  /**
   * Rejects with CtlError when the task takes too long and when this is closed, and with another error when the thread
   * ends: piscina would leave a task in its queue whose thread ends before it has loaded its code.
   */
  async #runOnce(task: AdmissionTask, timeoutMs: number): Promise<AdmissionReply> {
    if (this.#closed) throw closedError();
    const pool = this.#started();
    const ended = new AbortController();
    const timeout = AbortSignal.timeout(timeoutMs);
    const running = pool.run(task, { signal: AbortSignal.any([timeout, ended.signal]) });
    const threads = pool.threads;
    // Piscina's own listeners come first, and know the reason where the thread had begun the task.
    const onExit = (): void => ended.abort();
    for (const thread of threads) thread.once('exit', onExit);
    try {
      return await running;
    } catch (error) {
      if (this.#closed) throw closedError();
      const hung = timeout.aborted;
      this.#options.onCrash(hung ? new CtlError('deadline_exceeded', `took more than ${timeoutMs} ms`) : error);
      if (hung) throw new CtlError('deadline_exceeded', `the review took more than ${timeoutMs / 1000} s`);
      throw error;
    } finally {
      for (const thread of threads) thread.off('exit', onExit);
    }
  }

  #started(): Piscina<AdmissionTask, AdmissionReply> {
    if (this.#pool !== undefined) return this.#pool;
    const pool = new Piscina<AdmissionTask, AdmissionReply>({
      filename: this.#options.workerFile,
      name: 'run',
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: this.#options.idleMs,
      resourceLimits: RESOURCE_LIMITS,
      trackUnmanagedFds: false,
    });
    // A worker died between tasks; without a listener that would end the process.
    pool.on('error', (error) => {
      if (!this.#closed) this.#options.onCrash(error);
    });
    this.#pool = pool;
    return pool;
  }
}

export function closedError(): CtlError {
  return new CtlError('unavailable', 'the control plane is stopping');
}
