/**
 * One worker thread, and what it is known to have. Each is a piscina pool of one thread, so that the main thread knows
 * the version of every replica. Piscina restarts a thread that dies; the new one has nothing.
 */
import { Piscina } from 'piscina';
import { CtlError } from '../../core/errors.ts';
import type { GenerateAnswer, GenerateJob, GenerateTask } from '../protocol.ts';
import type { ReplicaLog } from './replica-log.ts';
import { ReceivedUnits } from './unit-numbers.ts';

/** Released scopes queued for an idle worker; with more, the worker gets the order to release all. */
const MAX_RELEASED = 4096;

export class WorkerSlot {
  readonly #pool: Piscina<GenerateTask, GenerateAnswer>;
  /** Version of the worker's replica; 0 when it has none. */
  version = 0;
  /** Units that the worker need not send again; undefined: the worker must discard its numbers. */
  receivedUnits: ReceivedUnits | undefined;
  /** Scopes that the worker may have built and nobody uses any more; undefined: it must release all. */
  #released: Set<string> | undefined = new Set();
  /** It runs a task, or pauses after a failure. */
  busy = false;
  /** Consecutive failures to update its replica. */
  failures = 0;

  /** @param onError called when the worker dies between tasks; without a listener the process would exit */
  constructor(filename: string, onError: (error: unknown) => void) {
    this.#pool = new Piscina<GenerateTask, GenerateAnswer>({
      filename,
      name: 'run',
      minThreads: 1,
      maxThreads: 1,
      idleTimeout: Number.POSITIVE_INFINITY,
      trackUnmanagedFds: false,
    });
    this.#pool.on('error', (error) => {
      this.version = 0;
      onError(error);
    });
  }

  /** Makes the worker release scopes with its next task. */
  released(scopes: readonly string[]): void {
    if (this.#released === undefined) return;
    for (const id of scopes) this.#released.add(id);
    if (this.#released.size > MAX_RELEASED) this.#released = undefined;
  }

  #takeReleased(): GenerateTask['released'] {
    const released = this.#released;
    if (released?.size === 0) return undefined;
    this.#released = new Set();
    return released === undefined ? 'all' : [...released];
  }

  /**
   * Updates the replica and runs the jobs. Rejects when the thread dies, or takes longer than `timeoutMs` and is
   * terminated.
   */
  async run(log: ReplicaLog, jobs: GenerateJob[], timeoutMs: number): Promise<GenerateAnswer> {
    // A new worker has given out no numbers.
    const forget = this.receivedUnits === undefined || this.version === 0;
    if (forget) this.receivedUnits = new ReceivedUnits();
    const released = this.#takeReleased();
    const task: GenerateTask = {
      update: log.since(this.version),
      jobs,
      ...(forget && { forget: true as const }),
      ...(released !== undefined && { released }),
    };
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      const answer = await this.#pool.run(task, { signal });
      this.version = answer.kind === 'behind' ? 0 : answer.version;
      return answer;
    } catch (error) {
      this.version = 0;
      if (signal.aborted) throw new CtlError('deadline_exceeded', `took longer than ${timeoutMs / 1000} s`);
      throw error;
    }
  }

  /** For tests that terminate one. */
  get threads(): readonly { terminate(): Promise<number> }[] {
    return this.#pool.threads;
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }
}
