/** Limits the average rate of operations, with bursts. */

export interface TokenBucketOptions {
  /** Operations a second; 0: none beyond the burst. */
  readonly rate: number;
  /** Operations at once. */
  readonly burst: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

export class TokenBucket {
  readonly #options: TokenBucketOptions;
  #tokens: number;
  #at: number;

  constructor(options: TokenBucketOptions) {
    this.#options = options;
    this.#tokens = this.#capacity;
    this.#at = options.now();
  }

  /** Takes a token and returns 0, or returns the milliseconds until a token is available. */
  take(): number {
    const { rate } = this.#options;
    this.#refill();
    if (this.#tokens >= 1) {
      this.#tokens--;
      return 0;
    }
    return rate > 0 ? Math.ceil(((1 - this.#tokens) / rate) * 1000) : Number.POSITIVE_INFINITY;
  }

  /** Takes tokens for operations that have already happened; returns the milliseconds until the debt is paid, or 0. */
  spend(tokens: number): number {
    const { rate } = this.#options;
    this.#refill();
    this.#tokens -= tokens;
    if (this.#tokens >= 0) return 0;
    return rate > 0 ? Math.ceil((-this.#tokens / rate) * 1000) : Number.POSITIVE_INFINITY;
  }

  #refill(): void {
    const { rate, now } = this.#options;
    const time = now();
    this.#tokens = Math.min(this.#capacity, this.#tokens + ((time - this.#at) / 1000) * rate);
    this.#at = time;
  }

  get #capacity(): number {
    return Math.max(1, this.#options.burst);
  }
}
