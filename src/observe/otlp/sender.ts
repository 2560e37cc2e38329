/**
 * Sends bodies to an OpenTelemetry receiver one after the other (https://opentelemetry.io/docs/specs/otlp/#otlphttp),
 * with a bounded queue and retries. It never throws, and nobody waits for it.
 */
import { backoff } from '../../core/backoff.ts';
import { type Clock, sleep } from '../../core/clock.ts';
import { CtlError, messageOf } from '../../core/errors.ts';
import { httpText } from '../../core/network/http-call.ts';

/** Data points or spans in a body. */
export interface Batch {
  readonly body: string;
  readonly items: number;
}

export interface SenderOptions {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Items that may wait. The newest batch is kept whatever its size. */
  readonly maxQueued: number;
  readonly clock: Clock;
  /** 0 ≤ x < 1 */
  readonly random: () => number;
  readonly onResult: (result: 'sent' | 'dropped', items: number) => void;
  /** Called when sending begins to fail, with the reason; undefined when it works again. */
  readonly onState: (problem: string | undefined) => void;
}

/** Attempts for a batch; with the delays between them about a minute. */
const MAX_ATTEMPTS = 6;
const FIRST_DELAY_MS = 1000;
const MAX_DELAY_MS = 30_000;
/** A receiver answers with few bytes. */
const MAX_RESPONSE_BYTES = 64 * 1024;
/** https://opentelemetry.io/docs/specs/otlp/#retryable-response-codes */
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** What became of an attempt; `retryAfterMs`: as the receiver wants it. */
type Outcome =
  | { readonly sent: true }
  | { readonly problem: string; readonly retry: boolean; readonly retryAfterMs?: number };

export class Sender {
  readonly #options: SenderOptions;
  readonly #closing = new AbortController();
  readonly #queue: Batch[] = [];
  #queued = 0;
  #sending = false;
  #failing = false;

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  send(batch: Batch): void {
    this.#queue.push(batch);
    this.#queued += batch.items;
    // The one that is being sent stays, and the newest.
    const kept = this.#sending ? 1 : 0;
    while (this.#queued > this.#options.maxQueued && this.#queue.length > kept + 1) this.#remove(kept, 'dropped');
    if (!this.#sending) void this.#run();
  }

  /** Drops what waits. */
  close(): void {
    this.#closing.abort();
  }

  #remove(at: number, result: 'sent' | 'dropped'): void {
    for (const { items } of this.#queue.splice(at, 1)) {
      this.#queued -= items;
      this.#options.onResult(result, items);
    }
  }

  async #run(): Promise<void> {
    this.#sending = true;
    let failures = 0;
    for (let [batch] = this.#queue; batch !== undefined && !this.#closing.signal.aborted; [batch] = this.#queue) {
      const outcome = await this.#attempt(batch);
      if (this.#closing.signal.aborted) break;
      if ('sent' in outcome) {
        this.#report(undefined);
        failures = 0;
        this.#remove(0, 'sent');
        continue;
      }
      this.#report(outcome.problem);
      failures++;
      if (!outcome.retry || failures >= MAX_ATTEMPTS) {
        failures = 0;
        this.#remove(0, 'dropped');
        continue;
      }
      const own = backoff(failures, FIRST_DELAY_MS, MAX_DELAY_MS, this.#options.random);
      const delay = Math.min(MAX_DELAY_MS, Math.max(own, outcome.retryAfterMs ?? 0));
      await sleep(this.#options.clock, delay, this.#closing.signal);
    }
    this.#sending = false;
  }

  #report(problem: string | undefined): void {
    const failing = problem !== undefined;
    if (failing !== this.#failing) this.#options.onState(problem);
    this.#failing = failing;
  }

  async #attempt({ body }: Batch): Promise<Outcome> {
    const { url: to, timeoutMs, headers: own } = this.#options;
    const headers = { ...own, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const { signal } = this.#closing;
    try {
      const call = { to, method: 'POST', headers, body, timeoutMs, signal };
      const { status, headers: answered, text } = await httpText(call, MAX_RESPONSE_BYTES);
      if (status >= 200 && status < 300) return { sent: true };
      const seconds = Number(answered['retry-after']);
      return {
        problem: `HTTP ${status}: ${text.slice(0, 200).replace(/\s+/g, ' ')}`,
        retry: RETRYABLE.has(status),
        ...(seconds > 0 && { retryAfterMs: seconds * 1000 }),
      };
    } catch (error) {
      return { problem: error instanceof CtlError ? error.oneLine() : messageOf(error), retry: true };
    }
  }
}
