/**
 * One worker thread and what it is known to have. Each is a piscina pool of one, so that it is known which replica
 * stands where and what it has to be told. A thread that dies is started anew by piscina, with nothing.
 */
import { Piscina } from 'piscina';
import { CtlError } from '../../core/errors.ts';
import type { GenerateAnswer, GenerateJob, GenerateTask } from '../protocol.ts';
import type { ReplicaLog } from './replica-log.ts';
import { ReceivedUnits } from './unit-numbers.ts';

/** Ids of scopes that are kept for a worker that has nothing to do; where there are more, it is to let go of all. */
const MAX_RELEASED = 4096;

export class WorkerSlot {
  readonly #pool: Piscina<GenerateTask, GenerateAnswer>;
  /** Version of the worker's replica; 0 when it has nothing. */
  version = 0;
  /** Units that the worker need not tell again; undefined: it is to forget what it has said. */
  receivedUnits: ReceivedUnits | undefined;
  /** Scopes that the worker may have built and nobody uses any more; undefined: it is to let go of all. */
  #released: Set<string> | undefined = new Set();
  /** It works, or rests after a failure. */
  busy = false;
  /** Times in a row that its replica could not be brought up to date. */
  failures = 0;

  /** @param onError told of a worker that dies between tasks; nobody listening would end the process */
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

  /** Has the worker let go of scopes, with its next task. */
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
   * Brings the replica up to date and runs the jobs. Rejects when the thread dies; one that takes longer than
   * `timeoutMs` is ended.
   */
  async run(log: ReplicaLog, jobs: GenerateJob[], timeoutMs: number): Promise<GenerateAnswer> {
    // One that has nothing has said nothing.
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

  /** For tests that end one. */
  get threads(): readonly { terminate(): Promise<number> }[] {
    return this.#pool.threads;
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }
}
