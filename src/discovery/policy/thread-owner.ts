/**
 * Owns the policy thread: starts it with the first document, hands it the calls of proxies, and starts it again when it
 * has died. Calls in progress then fail, and Envoy denies these requests.
 */
import { Worker } from 'node:worker_threads';
import { backoff } from '../../core/backoff.ts';
import type { Clock, Timer } from '../../core/clock.ts';
import { CtlError, messageOf } from '../../core/errors.ts';
import { FairLimiter } from '../../core/fairness/fair-limiter.ts';
import {
  type CallerRecord,
  type FromPolicyThread,
  type PolicyThreadData,
  packed,
  type ToPolicyThread,
  unpacked,
  type WorkloadChanges,
} from '../../policy/index.ts';
import { type ChangedDocument, DocumentFeed } from './document-feed.ts';

/** Calls in progress, of which no caller gets all. */
const MAX_CALLS = 16_384;
/** Bytes of their requests, of which no caller gets all. */
const MAX_CALL_MEMORY = 64 * 1024 * 1024;

/** A thread that has sent nothing for this time hangs, ms; it sends measurements several times a second. */
const SILENCE_MS = 10_000;
/** The same while it loads its code. */
const LOAD_MS = 60_000;

const [RESTART_MS, MAX_RESTART_MS] = [200, 10_000];
/** After this time without a crash, the next one counts as the first, ms. */
const STABLE_MS = 60_000;

/** Numbered callers; the one that was named first is forgotten when there are more. */
const MAX_CALLERS = 50_000;

const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 1_024, maxYoungGenerationSizeMb: 64 };

export interface ThreadOwnerOptions {
  readonly workerFile: URL;
  readonly data: PolicyThreadData;
  readonly clock: Clock;
  readonly random: () => number;
  /** The documents and workloads for a thread that has just started. */
  readonly state: () => { readonly documents: readonly ChangedDocument[]; readonly workloads: WorkloadChanges };
  /** Messages about the thread's state, logs and output. */
  readonly onMessage: (message: Exclude<FromPolicyThread, { kind: 'answers' | 'recorded' | 'scraped' }>) => void;
  readonly onCrash: (reason: string) => void;
}

interface Waiting {
  readonly resolve: (bytes: Buffer) => void;
  readonly reject: (error: CtlError) => void;
}

const UNDECIDED = 'the policy cannot be evaluated now';

export class PolicyThreadOwner {
  readonly #options: ThreadOwnerOptions;
  readonly #limiter = new FairLimiter(MAX_CALLS);
  readonly #memory = new FairLimiter(MAX_CALL_MEMORY);
  #worker: Worker | undefined;
  #wanted = false;
  #closing: (() => void) | undefined;
  #closed = false;
  #crashes = 0;
  #crashedAt = 0;
  #restart: Timer | undefined;
  #watch: Timer | undefined;
  #heardAt = 0;
  #loaded = false;
  #next = 1;
  readonly #documents = new DocumentFeed((message) => this.#post(message), setImmediate);
  readonly #calls = new Map<number, Waiting>();
  readonly #records = new Map<number, () => void>();
  readonly #scrapes = new Map<number, (text: string) => void>();
  #callers = new Map<CallerRecord, number>();
  #batch: { ids: number[]; callers: number[]; requests: Uint8Array[] } | undefined;

  constructor(options: ThreadOwnerOptions) {
    this.#options = options;
  }

  /** The thread has to run from now on. */
  start(): void {
    this.#wanted = true;
    if (this.#worker === undefined && this.#restart === undefined && !this.#closed) this.#begin();
  }

  configure(documents: Iterable<ChangedDocument>): void {
    this.#documents.change(documents);
  }

  changeWorkloads(changes: WorkloadChanges): void {
    this.#post({ kind: 'workloads', changes });
  }

  /** For tests that terminate it. */
  get thread(): Worker | undefined {
    return this.#worker;
  }

  /**
   * Resolves with the bytes of a CheckResponse. Rejects with CtlError: resource_exhausted when too many calls wait,
   * unavailable when there is no decision.
   */
  check(caller: CallerRecord, request: Uint8Array): Promise<Buffer> {
    if (this.#worker === undefined) return Promise.reject(new CtlError('unavailable', UNDECIDED));
    const leave = this.#enter(caller.key, request.length);
    if (leave === undefined) {
      const message = 'too many decisions are waited for, by this proxy or in total';
      return Promise.reject(new CtlError('resource_exhausted', message));
    }
    return new Promise<Buffer>((resolve, reject) => {
      const id = this.#next++;
      this.#calls.set(id, {
        resolve: (bytes) => {
          leave();
          resolve(bytes);
        },
        reject: (error) => {
          leave();
          reject(error);
        },
      });
      this.#addToBatch(id, this.#numberOf(caller), request);
    });
  }

  /** Takes a call and the memory of its request; undefined when this caller cannot have both. */
  #enter(caller: string, bytes: number): (() => void) | undefined {
    const release = this.#memory.enter(caller, Math.max(1, bytes));
    const leave = release && this.#limiter.enter(caller);
    if (leave === undefined) release?.();
    if (release === undefined || leave === undefined) return undefined;
    return () => {
      leave();
      release();
    };
  }

  /**
   * Hands over a message of the access log service; resolves when its handlers have it, or it is lost. The services
   * limit how many are in progress.
   */
  record(caller: CallerRecord, message: Uint8Array): Promise<void> {
    if (this.#worker === undefined) return Promise.resolve();
    return new Promise((resolve) => {
      const id = this.#next++;
      this.#records.set(id, resolve);
      const copy = new Uint8Array(message);
      this.#post({ kind: 'record', id, caller: this.#numberOf(caller), message: copy }, [copy.buffer]);
    });
  }

  /** The page of the Prometheus handlers; empty without a thread. */
  scrape(): Promise<string> {
    if (this.#worker === undefined) return Promise.resolve('');
    return new Promise((resolve) => {
      const id = this.#next++;
      this.#scrapes.set(id, resolve);
      this.#post({ kind: 'scrape', id });
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#restart?.cancel();
    const worker = this.#worker;
    if (worker === undefined) return;
    await new Promise<void>((resolve) => {
      this.#closing = resolve;
      this.#post({ kind: 'close' });
      this.#options.clock.setTimer(1_000, resolve);
    });
    await worker.terminate();
  }

  written(characters: number): void {
    this.#post({ kind: 'written', characters });
  }

  #begin(): void {
    const { workerFile, data, state, clock } = this.#options;
    const worker = new Worker(workerFile, { workerData: data, resourceLimits: RESOURCE_LIMITS, name: 'policy' });
    this.#worker = worker;
    this.#loaded = false;
    this.#heardAt = clock.now();
    this.#callers = new Map();
    let reason = 'it ended';
    worker.on('message', (message: FromPolicyThread) => this.#take(message));
    worker.once('error', (error) => {
      reason = messageOf(error);
    });
    worker.once('exit', () => this.#ended(worker, reason));
    const { documents, workloads } = state();
    this.#post({ kind: 'workloads', changes: workloads });
    this.#documents.start(documents);
    this.#watchOver(worker);
  }

  #watchOver(worker: Worker): void {
    const { clock } = this.#options;
    this.#watch = clock.setTimer(1_000, () => {
      if (this.#worker !== worker) return;
      const silence = this.#loaded ? SILENCE_MS : LOAD_MS;
      if (clock.now() - this.#heardAt <= silence) this.#watchOver(worker);
      else void worker.terminate();
    });
  }

  #ended(worker: Worker, reason: string): void {
    if (this.#worker !== worker) return;
    this.#worker = undefined;
    this.#watch?.cancel();
    this.#batch = undefined;
    const error = new CtlError('unavailable', UNDECIDED);
    for (const { reject } of this.#taken(this.#calls)) reject(error);
    for (const resolve of this.#taken(this.#records)) resolve();
    for (const resolve of this.#taken(this.#scrapes)) resolve('');
    this.#closing?.();
    if (this.#closed) return;
    const { clock, random } = this.#options;
    if (clock.now() - this.#crashedAt >= STABLE_MS) this.#crashes = 0;
    this.#crashedAt = clock.now();
    this.#crashes++;
    this.#options.onCrash(reason);
    this.#restart = clock.setTimer(backoff(this.#crashes, RESTART_MS, MAX_RESTART_MS, random), () => {
      this.#restart = undefined;
      if (this.#wanted) this.#begin();
    });
  }

  #taken<T>(map: Map<number, T>): T[] {
    const all = [...map.values()];
    map.clear();
    return all;
  }

  #take(message: FromPolicyThread): void {
    this.#heardAt = this.#options.clock.now();
    switch (message.kind) {
      case 'answers':
        for (const [at, response] of unpacked(message.responses).entries())
          this.#answered(message.ids[at] ?? -1, response);
        return;
      case 'recorded':
        this.#records.get(message.id)?.();
        this.#records.delete(message.id);
        return;
      case 'scraped':
        this.#scrapes.get(message.id)?.(message.text);
        this.#scrapes.delete(message.id);
        return;
      case 'configured':
        this.#loaded = true;
        break;
      case 'closed':
        this.#closing?.();
        break;
      default:
    }
    this.#options.onMessage(message);
  }

  #answered(id: number, response: Uint8Array): void {
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    if (response.length === 0) call?.reject(new CtlError('unavailable', UNDECIDED));
    else call?.resolve(Buffer.from(response.buffer, response.byteOffset, response.length));
  }

  /** The calls of one turn of the event loop are handed over together. */
  #addToBatch(id: number, caller: number, request: Uint8Array): void {
    if (this.#batch === undefined) {
      const batch = { ids: [], callers: [], requests: [] };
      this.#batch = batch;
      setImmediate(() => this.#flush(batch));
    }
    this.#batch?.ids.push(id);
    this.#batch?.callers.push(caller);
    this.#batch?.requests.push(request);
  }

  #flush(batch: { readonly ids: number[]; readonly callers: number[]; readonly requests: Uint8Array[] }): void {
    if (this.#batch !== batch) return;
    this.#batch = undefined;
    const { ids, callers } = batch;
    this.#post({ kind: 'checks', ids, callers, requests: packed(batch.requests) });
  }

  #numberOf(record: CallerRecord): number {
    const known = this.#callers.get(record);
    if (known !== undefined) return known;
    const [oldest] = this.#callers;
    if (this.#callers.size >= MAX_CALLERS && oldest !== undefined) {
      this.#flushNow();
      this.#callers.delete(oldest[0]);
      this.#post({ kind: 'forget caller', id: oldest[1] });
    }
    const id = this.#next++;
    this.#callers.set(record, id);
    this.#post({ kind: 'caller', id, record });
    return id;
  }

  #flushNow(): void {
    if (this.#batch !== undefined) this.#flush(this.#batch);
  }

  /** @param moved buffers that are handed over without a copy */
  #post(message: ToPolicyThread, moved: readonly ArrayBuffer[] = []): void {
    this.#worker?.postMessage(message, [...moved]);
  }
}
