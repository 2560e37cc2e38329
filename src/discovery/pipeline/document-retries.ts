/**
 * Applies documents again that are refused because of an internal error: neither they nor their sources need change. A
 * lasting error costs little, because the delays grow, and all documents of a source are retried together.
 */
import { backoff } from '../../core/backoff.ts';
import type { Clock, Timer } from '../../core/clock.ts';

/** The first and the longest delay, ms. */
const FIRST_RETRY_MS = 1_000;
const MAX_RETRY_MS = 60_000;

export interface DocumentRetriesOptions {
  readonly clock: Clock;
  /** Applies those of a source again. Must not reject. */
  readonly retry: (source: string) => Promise<void>;
}

interface Retried {
  /** Retries since all documents of the source could be applied. */
  times: number;
  /** Undefined while they are being applied. */
  timer: Timer | undefined;
}

export class DocumentRetries {
  readonly #options: DocumentRetriesOptions;
  /** By source. */
  readonly #sources = new Map<string, Retried>();

  constructor(options: DocumentRetriesOptions) {
    this.#options = options;
  }

  /** Called after each batch of a source, with the number of its documents that could not be applied. */
  applied(source: string, unapplied: number): void {
    const known = this.#sources.get(source);
    if (unapplied === 0) this.forget(source);
    else if (known === undefined) this.#wait(source, { times: 0, timer: undefined });
  }

  /** The source is removed. */
  forget(source: string): void {
    this.#sources.get(source)?.timer?.cancel();
    this.#sources.delete(source);
  }

  close(): void {
    for (const source of [...this.#sources.keys()]) this.forget(source);
  }

  #wait(source: string, retried: Retried): void {
    this.#sources.set(source, retried);
    retried.times++;
    const delay = backoff(retried.times, FIRST_RETRY_MS, MAX_RETRY_MS, () => 0);
    retried.timer = this.#options.clock.setTimer(delay, () => void this.#retry(source, retried));
  }

  async #retry(source: string, retried: Retried): Promise<void> {
    retried.timer = undefined;
    await this.#options.retry(source);
    // Otherwise they were applied, or the source was removed.
    if (this.#sources.get(source) === retried) this.#wait(source, retried);
  }
}
