/**
 * One worker thread, and its known state. Each is a piscina pool of one thread, so that the main thread knows the
 * version of every mesh copy. Piscina restarts a thread that dies; the new one has nothing.
 */
import { Piscina } from 'piscina';
import { CtlError } from '../../core/errors.ts';
import type { PreviewTask } from '../previews/index.ts';
import type { GenerateAnswer, GenerateJob, GenerateTask } from '../protocol.ts';
import type { Lane } from './job-queue.ts';
import type { MeshCopyLog } from './mesh-copy-log.ts';
import { ReceivedUnits } from './unit-numbers.ts';

/** Released scopes queued for an idle worker; with more, the worker gets the order to release all. */
const MAX_RELEASED = 4096;
/**
 * Suspended jobs that a worker keeps, each with its snapshot. With more, the running job is not interrupted: so many
 * concurrent long jobs only occur at the start of a large mesh.
 */
const MAX_SUSPENDED = 32;

/**
 * The work for a worker: jobs to begin, or jobs of an earlier task to resume; without jobs, only an update of its mesh
 * copy.
 */
export type SlotWork =
  | { readonly jobs: readonly GenerateJob[]; readonly id?: number }
  | { readonly preview: PreviewTask; readonly id: number }
  | { readonly resumed: number };

export class WorkerSlot {
  readonly #pool: Piscina<GenerateTask, GenerateAnswer>;
  /** Version of the worker's mesh copy; 0 when it has none. */
  version = 0;
  /** Units that the worker need not send again; undefined: the worker must discard its numbers. */
  receivedUnits: ReceivedUnits | undefined;
  /** Scopes that the worker may have built and that are no longer used; undefined if it must release all. */
  #released: Set<string> | undefined = new Set();
  /** It runs a task, or pauses after a failure. */
  busy = false;
  /** It runs a preview, which gives way to any job. */
  isPreviewing = false;
  /** The lane of the job that it runs. */
  lane: Lane | undefined;
  /** Ids of the jobs that the worker has suspended. */
  readonly #suspended = new Set<number>();
  /** Suspended jobs that are no longer needed, for the next task. */
  #dropped: number[] = [];
  /** 1: others wait, see `GenerateTask.giveWay`. */
  readonly #giveWay = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  /** Consecutive failures to update its mesh copy. */
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
    // Its successor has to load its code and build a mesh copy, which does not count as the time of a job.
    this.#pool.on('workerDestroy', () => {
      this.version = 0;
    });
    this.#pool.on('error', (error) => {
      this.version = 0;
      onError(error);
    });
  }

  /** Tells the worker whether others wait for it. */
  set contended(contended: boolean) {
    Atomics.store(this.#giveWay, 0, contended && this.#suspended.size < MAX_SUSPENDED ? 1 : 0);
  }

  /** Makes the worker drop a suspended job with its next task. */
  drop(id: number): void {
    if (this.#suspended.delete(id)) this.#dropped.push(id);
  }

  #takeDropped(): readonly number[] {
    const dropped = this.#dropped;
    this.#dropped = [];
    return dropped;
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
   * Updates the mesh copy and runs the jobs until they are complete or others wait. Rejects if the thread dies, or
   * takes longer than `timeoutMs` and is terminated.
   */
  async run(log: MeshCopyLog, work: SlotWork, timeoutMs: number): Promise<GenerateAnswer> {
    // A new worker has not assigned any numbers.
    const forget = this.receivedUnits === undefined || this.version === 0;
    if (forget) this.receivedUnits = new ReceivedUnits();
    const released = this.#takeReleased();
    const dropped = this.#takeDropped();
    const task: GenerateTask = {
      update: log.since(this.version),
      jobs: [],
      ...work,
      giveWay: this.#giveWay,
      ...(forget && { forget: true as const }),
      ...(released !== undefined && { released }),
      ...(dropped.length > 0 && { dropped }),
    };
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      const answer = await this.#pool.run(task, { signal });
      this.version = answer.kind === 'behind' ? 0 : answer.version;
      this.#note(work, answer);
      return answer;
    } catch (error) {
      this.version = 0;
      this.#suspended.clear();
      if (signal.aborted) throw new CtlError('deadline_exceeded', `took longer than ${timeoutMs / 1000} s`);
      throw error;
    }
  }

  #note(work: SlotWork, { kind }: GenerateAnswer): void {
    const id = 'resumed' in work ? work.resumed : work.id;
    // A worker that is behind has not looked at its jobs.
    if (id === undefined || kind === 'behind') return;
    if (kind === 'suspended') this.#suspended.add(id);
    else this.#suspended.delete(id);
  }

  /** For tests that terminate one. */
  get threads(): readonly { terminate(): Promise<number> }[] {
    return this.#pool.threads;
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }
}
