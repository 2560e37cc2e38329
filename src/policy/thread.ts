/**
 * What runs in the policy thread: takes messages of the main thread, decides about the calls of all proxies one by one,
 * the proxy that has used the least time first, and answers in batches.
 */
import { CtlError, oneLineOf } from '../core/errors.ts';
import { TimeFairQueue } from '../core/fairness/time-fair-queue.ts';
import { TimeShares } from '../core/fairness/time-shares.ts';
import type { Log } from '../core/log.ts';
import type { Slices } from '../core/slices.ts';
import type { AdapterHost } from './adapters/types.ts';
import type { CallerRecord } from './attributes/workloads.ts';
import {
  type FromPolicyThread,
  type PolicyLogScope,
  type PolicyThreadData,
  packed,
  type ToPolicyThread,
  unpacked,
} from './protocol.ts';
import { PolicyEngine } from './runtime/engine.ts';
import type { PolicyConfig, PolicyDocument, PolicyOptions } from './types.ts';

/** Time of the thread after which it takes new messages, ms. */
const SLICE_MS = 5;

/** Time of the thread after which answers are sent while calls wait, ms: each message costs both threads some µs. */
const ANSWER_MS = 1;

/** Time that a caller may use before the next one's turn, ms. */
const QUANTUM_MS = 1;

/** How often measurements are sent, ms. */
const STATS_MS = 200;

/** Characters of lines that the main thread has not written yet. */
const MAX_UNWRITTEN = 1024 * 1024;

/** In place of a response: Envoy is told that there is no decision. */
const UNDECIDED = new Uint8Array(0);

type Work =
  | { readonly kind: 'check'; readonly id: number; readonly caller: CallerRecord; readonly request: Uint8Array }
  | RecordWork;

interface RecordWork {
  readonly kind: 'record';
  readonly id: number;
  readonly caller: CallerRecord;
  readonly message: Uint8Array;
  /** What is left to do, once it has begun. */
  steps?: Slices<Promise<void>>;
}

/** The parts of a host that the thread does not provide itself. */
export type ThreadHost = Omit<AdapterHost, 'lines' | 'log' | 'skipsSanVerification'>;

export interface PolicyThreadOptions {
  readonly data: PolicyThreadData;
  readonly host: ThreadHost;
  readonly compile: (documents: readonly PolicyDocument[], options: PolicyOptions) => Slices<PolicyConfig>;
  readonly post: (message: FromPolicyThread) => void;
  /** Calls `run` after new messages were taken. */
  readonly nextTurn: (run: () => void) => void;
}

export class PolicyThread {
  readonly #options: PolicyThreadOptions;
  readonly #engine: PolicyEngine;
  readonly #shares = new TimeShares(QUANTUM_MS);
  readonly #queue = new TimeFairQueue<Work>(this.#shares);
  readonly #callers = new Map<number, CallerRecord>();
  readonly #stopStats: () => void;
  #answered: number[] = [];
  #responses: Uint8Array[] = [];
  #scheduled = false;
  readonly #documents = new Map<string, PolicyDocument>();
  /** The configuration that is being compiled. */
  #compiling: Slices<PolicyConfig> | undefined;
  /** Whether documents have changed since then, and whether more changes follow that belong to these. */
  #isChanged = false;
  #isIncomplete = false;
  #configured = false;
  #unwritten = 0;

  constructor(options: PolicyThreadOptions) {
    const { data, host, post } = options;
    const log = (scope: PolicyLogScope): Log => {
      const at = (level: 'debug' | 'info' | 'warn' | 'error') => (message: string) =>
        post({ kind: 'log', scope, level, message });
      return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
    };
    const [attributes, adapters] = [limited(log('attributes'), host), limited(log('grpcAdapter'), host)];
    const lines = { write: (stream: 'STDOUT' | 'STDERR', line: string) => this.#write(stream, line) };
    const { skipsSanVerification, options: policy } = data;
    this.#options = options;
    this.#engine = new PolicyEngine({
      host: { ...host, lines, log: log('grpcAdapter'), skipsSanVerification },
      configNamespace: policy.configNamespace,
      logs: { attributes, grpcAdapter: adapters },
      log: log('grpcAdapter'),
    });
    this.#stopStats = host.every(STATS_MS, () => this.#sendStats());
  }

  take(message: ToPolicyThread): void {
    switch (message.kind) {
      case 'configure':
        this.#configure(message);
        return;
      case 'workloads':
        this.#engine.changeWorkloads(message.changes);
        return;
      case 'caller':
        this.#callers.set(message.id, message.record);
        return;
      case 'forget caller':
        this.#callers.delete(message.id);
        return;
      case 'checks':
        for (const [at, request] of unpacked(message.requests).entries()) {
          const id = message.ids[at] ?? -1;
          this.#add(message.callers[at] ?? -1, (caller) => ({ kind: 'check', id, caller, request }));
        }
        return;
      case 'record':
        this.#add(message.caller, (caller) => ({ kind: 'record', id: message.id, caller, message: message.message }));
        return;
      case 'scrape':
        this.#options.post({ kind: 'scraped', id: message.id, text: this.#engine.page() });
        return;
      case 'written':
        this.#unwritten -= message.characters;
        return;
      case 'close':
        this.#close();
    }
  }

  /**
   * Compiles documents in slices, so that calls are decided meanwhile. A compilation that has begun is finished, or
   * frequent changes would keep all of them from coming into force; of those that wait then, the newest is compiled.
   */
  #configure({ set, deleted, more }: Extract<ToPolicyThread, { readonly kind: 'configure' }>): void {
    for (const [key, document] of set) this.#documents.set(key, document);
    for (const key of deleted) this.#documents.delete(key);
    this.#isIncomplete = more;
    this.#isChanged = true;
    if (this.#compiling === undefined) this.#compileNext();
  }

  #compileNext(): void {
    const { compile, data, nextTurn } = this.#options;
    if (!this.#isChanged || this.#isIncomplete) return;
    this.#compiling = compile([...this.#documents.values()], data.options);
    this.#isChanged = false;
    nextTurn(() => this.#compileSlice());
  }

  #compileSlice(): void {
    const { host, nextTurn } = this.#options;
    const compiling = this.#compiling;
    if (compiling === undefined) return;
    const end = host.monotonic() + SLICE_MS;
    do {
      const step = compiling.next();
      if (step.done !== true) continue;
      this.#compiling = undefined;
      this.#putInForce(step.value);
      this.#compileNext();
      return;
    } while (host.monotonic() < end);
    nextTurn(() => this.#compileSlice());
  }

  #putInForce(config: PolicyConfig): void {
    const { counts, problems } = config;
    this.#options.post({ kind: 'configured', counts, problems, ...this.#engine.configure(config) });
    this.#configured = true;
    if (this.#queue.size > 0) this.#schedule();
  }

  #add(caller: number, work: (caller: CallerRecord) => Work): void {
    const record = this.#callers.get(caller);
    // The main thread names a caller before its first call.
    if (record === undefined) throw new CtlError('internal', `unknown caller ${caller}`);
    this.#queue.add(record.key, work(record));
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#options.nextTurn(() => this.#run());
  }

  #run(): void {
    this.#scheduled = false;
    // Calls before the first configuration wait for it.
    if (!this.#configured) return;
    const { monotonic } = this.#options.host;
    const end = monotonic() + SLICE_MS;
    let before = monotonic();
    let sent = before;
    for (let work = this.#queue.next(); work !== undefined; work = this.#queue.next()) {
      this.#do(work);
      const now = monotonic();
      this.#shares.charge(work.caller.key, now - before);
      before = now;
      if (now >= end) break;
      if (now - sent < ANSWER_MS) continue;
      this.#flush();
      sent = now;
    }
    this.#flush();
    if (this.#queue.size > 0) this.#schedule();
  }

  #do(work: Work): void {
    if (work.kind === 'record') {
      this.#record(work);
      return;
    }
    const { id, request, caller } = work;
    try {
      const response = this.#engine.check(request, caller);
      if (response instanceof Promise) {
        response.then(
          (bytes) => this.#later(id, bytes),
          () => this.#later(id, UNDECIDED),
        );
      } else this.#answer(id, response);
    } catch (error) {
      if (!(error instanceof CtlError)) throw error;
      this.#answer(id, UNDECIDED);
    }
  }

  /** Works on a message of records until its caller's turn is over. */
  #record(work: RecordWork): void {
    const { host, post } = this.#options;
    work.steps ??= this.#engine.record(work.message, work.caller);
    const end = host.monotonic() + QUANTUM_MS;
    do {
      const step = work.steps.next();
      if (step.done !== true) continue;
      void step.value.then(() => post({ kind: 'recorded', id: work.id }));
      return;
    } while (host.monotonic() < end);
    this.#queue.add(work.caller.key, work, true);
  }

  #answer(id: number, response: Uint8Array): void {
    this.#answered.push(id);
    this.#responses.push(response);
  }

  /** Answers that come within one turn are sent together. */
  #later(id: number, response: Uint8Array): void {
    this.#answer(id, response);
    this.#schedule();
  }

  #flush(): void {
    if (this.#answered.length === 0) return;
    this.#options.post({ kind: 'answers', ids: this.#answered, responses: packed(this.#responses) });
    this.#answered = [];
    this.#responses = [];
  }

  #write(stream: 'STDOUT' | 'STDERR', text: string): boolean {
    if (this.#unwritten + text.length > MAX_UNWRITTEN) return false;
    this.#unwritten += text.length;
    this.#options.post({ kind: 'lines', stream, text });
    return true;
  }

  #sendStats(): void {
    this.#options.post({ kind: 'stats', ...this.#engine.sample() });
  }

  #close(): void {
    this.#stopStats();
    this.#compiling = undefined;
    this.#isChanged = false;
    this.#configured = false;
    this.#engine.close();
    this.#sendStats();
    this.#options.post({ kind: 'closed' });
  }
}

/** Lines about the same thing in a row, and how long until it is logged again, ms. */
const REPEAT_MS = 10_000;
const MAX_REMEMBERED = 1_000;

/** Logs what a thing's problem is once in a while: each request may have it. */
function limited(log: Log, { monotonic }: Pick<AdapterHost, 'monotonic'>): (about: string, message: string) => void {
  const last = new Map<string, number>();
  return (about, message) => {
    const now = monotonic();
    if (now - (last.get(about) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return;
    if (last.size >= MAX_REMEMBERED) last.clear();
    last.set(about, now);
    log.warn(oneLineOf(message));
  };
}
