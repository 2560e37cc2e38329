/** A distribution of times in milliseconds in little memory, for quantiles with an error of some percent. */

/** Buckets for each power of two: the upper bound of a bucket is 19 % above its lower one. */
const PER_OCTAVE = 4;
/** Bucket 0 has times up to this one, ms. */
const FIRST_MS = 0.25;
/** The last bucket has times above 140 s. */
const BUCKETS = 78;

export class Times {
  readonly #counts = new Uint32Array(BUCKETS);
  #count = 0;
  #max = 0;

  get count(): number {
    return this.#count;
  }

  /** 0 without a time. */
  get max(): number {
    return this.#max;
  }

  add(ms: number): void {
    const bucket = ms <= FIRST_MS ? 0 : Math.min(BUCKETS - 1, Math.ceil(Math.log2(ms / FIRST_MS) * PER_OCTAVE));
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#count++;
    if (ms > this.#max) this.#max = ms;
  }

  /** The time below which this part of all times is, 0 < part ≤ 1; undefined without a time. */
  quantile(part: number): number | undefined {
    if (this.#count === 0) return undefined;
    let left = Math.ceil(this.#count * part);
    let bucket = 0;
    for (; bucket < BUCKETS - 1; bucket++) {
      const within = this.#counts[bucket] ?? 0;
      if (left <= within) break;
      left -= within;
    }
    // As if the times of a bucket were spread evenly.
    const place = bucket - 1 + left / (this.#counts[bucket] ?? 1);
    return Math.min(this.#max, FIRST_MS * 2 ** (place / PER_OCTAVE));
  }

  clear(): void {
    this.#counts.fill(0);
    this.#count = 0;
    this.#max = 0;
  }
}
