/**
 * The inspector of the threads of this process, in the process: the main thread by a session of its own, worker threads
 * through the domain NodeWorker, so that they need not know of it. Commands are those of V8
 * (https://chromedevtools.github.io/devtools-protocol/v8/).
 */
import { type NodeTracing, type NodeWorker, Session } from 'node:inspector/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { CtlError } from '../../core/errors.ts';
import { THREAD_NAME_EXPRESSION } from '../../core/process/thread-name.ts';

/** The answer to a command; a thread that computes answers between two function calls. */
const ANSWER_MS = 10_000;

export const MAIN_THREAD = 0;

export interface ThreadInfo {
  /** 0 for the main thread, else the number that Node.js gives to it. */
  readonly id: number;
  readonly name: string;
}

/** A thread to which commands are sent. */
export interface InspectedThread {
  /** Rejects with CtlError `unavailable` without an answer. */
  post(method: string, params?: object): Promise<unknown>;
}

type Answer = { readonly id?: number; readonly result?: unknown; readonly error?: { readonly message: string } };

/** A worker that the session is attached to. */
class AttachedWorker implements InspectedThread {
  readonly id: number;
  readonly #session: Session;
  readonly #sessionId: string;
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  #last = 0;

  constructor(session: Session, { sessionId, workerInfo }: NodeWorker.AttachedToWorkerEventDataType) {
    this.id = Number(workerInfo.workerId);
    this.#session = session;
    this.#sessionId = sessionId;
  }

  get sessionId(): string {
    return this.#sessionId;
  }

  received(message: string): void {
    // Events have no id.
    const answer: Answer = JSON.parse(message);
    if (answer.id === undefined) return;
    this.#waiting.get(answer.id)?.(answer);
    this.#waiting.delete(answer.id);
  }

  async post(method: string, params: object = {}): Promise<unknown> {
    const id = ++this.#last;
    const answered = new Promise<Answer>((resolve) => this.#waiting.set(id, resolve));
    const message = JSON.stringify({ id, method, params });
    await this.#session.post('NodeWorker.sendMessageToWorker', { sessionId: this.#sessionId, message });
    const { result, error } = await inTime(answered);
    if (error !== undefined) throw new CtlError('unavailable', `${method}: ${error.message}`);
    return result;
  }
}

/** One look at the threads of the process; to be closed. */
export class Inspection {
  readonly #session = new Session();
  readonly #workers = new Map<string, AttachedWorker>();

  constructor() {
    this.#session.connect();
    this.#session.on('NodeWorker.attachedToWorker', ({ params }) => {
      this.#workers.set(params.sessionId, new AttachedWorker(this.#session, params));
    });
    this.#session.on('NodeWorker.detachedFromWorker', ({ params }) => void this.#workers.delete(params.sessionId));
    this.#session.on('NodeWorker.receivedMessageFromWorker', ({ params }) =>
      this.#workers.get(params.sessionId)?.received(params.message),
    );
  }

  /** All threads, the main thread first. */
  async threads(): Promise<ThreadInfo[]> {
    const workers = await this.#attached();
    const named = workers.map(async (worker): Promise<ThreadInfo> => {
      const answer = (await worker.post('Runtime.evaluate', { expression: THREAD_NAME_EXPRESSION })) as {
        result?: { value?: unknown };
      };
      return { id: worker.id, name: String(answer.result?.value ?? 'worker') };
    });
    return [{ id: MAIN_THREAD, name: 'main' }, ...(await Promise.all(named))];
  }

  /** A thread; undefined when there is none with this number. */
  async thread(id: number): Promise<InspectedThread | undefined> {
    if (id === MAIN_THREAD) return { post: (method, params) => inTime(this.#session.post(method, params)) };
    return (await this.#attached()).find((worker) => worker.id === id);
  }

  /**
   * Collects trace events of all threads until `until` has resolved or rejected; pieces after the limit are dropped.
   * @param maxEvents the number of events that are kept
   */
  async trace(
    categories: string[],
    maxEvents: number,
    until: () => Promise<unknown>,
  ): Promise<{ readonly events: readonly unknown[]; readonly dropped: number }> {
    const session = this.#session;
    const events: unknown[] = [];
    let dropped = 0;
    session.on('NodeTracing.dataCollected', ({ params }: { params: NodeTracing.DataCollectedEventDataType }) => {
      const kept = params.value.slice(0, maxEvents - events.length);
      events.push(...kept);
      dropped += params.value.length - kept.length;
    });
    const complete = new Promise((resolve) => session.once('NodeTracing.tracingComplete', resolve));
    await session.post('NodeTracing.start', { traceConfig: { includedCategories: categories } });
    try {
      await until();
    } finally {
      await session.post('NodeTracing.stop');
    }
    await inTime(complete);
    return { events, dropped };
  }

  async close(): Promise<void> {
    // A thread that is busy keeps its session until it is told.
    if (this.#workers.size > 0) await this.#session.post('NodeWorker.disable').catch(() => {});
    this.#session.disconnect();
  }

  async #attached(): Promise<AttachedWorker[]> {
    // Workers are attached before this is answered.
    await this.#session.post('NodeWorker.enable', { waitForDebuggerOnStart: false });
    return [...this.#workers.values()].sort((a, b) => a.id - b.id);
  }
}

async function inTime<T>(answered: Promise<T>): Promise<T> {
  const late = new AbortController();
  try {
    return await Promise.race([
      answered,
      sleep(ANSWER_MS, undefined, { signal: late.signal, ref: false }).then(() => {
        throw new CtlError('unavailable', `the thread has not answered within ${ANSWER_MS / 1000} s`);
      }),
    ]);
  } finally {
    late.abort();
  }
}
