/**
 * Items that are visited in rounds. Visits are made in slices, which leave most of the thread's time to other work, and
 * namespaces share the time of the slices: a namespace with many or expensive items delays the others by its share
 * only.
 */
import type { Clock, Timer } from '../core/clock.ts';
import { TimeFairQueue } from '../core/fairness/time-fair-queue.ts';
import { TimeShares } from '../core/fairness/time-shares.ts';

/** When an item is visited again: when it is added, also when the version has changed, or in the next round. */
export type NextVisit = 'none' | 'new-version' | 'next-round';

export interface RoundsOptions<T> {
  readonly clock: Clock;
  /** Interval between the starts of two rounds, ms. */
  readonly intervalMs: number;
  /** The version of the snapshot that is served. */
  readonly version: () => number;
  visit(item: T): NextVisit;
  /** Called after a slice of visits. */
  onSlice(): void;
}

/** Time after which a slice begins no further visit, ms. */
const SLICE_MS = 5;
/** Maximum share of time that slices take. */
const SLICE_SHARE = 1 / 20;
/**
 * Maximum pause between two slices after the first took long, ms: after the thread was suspended, work resumes soon.
 */
const MAX_PAUSE_MS = 1_000;

export class Rounds<T extends { readonly namespace: string }> {
  readonly #options: RoundsOptions<T>;
  readonly #shares = new TimeShares();
  readonly #waiting = new TimeFairQueue<T>(this.#shares);
  readonly #nextRound = new Set<T>();
  readonly #untilNewVersion = new Set<T>();
  #version = Number.NaN;
  /** The earliest start of the next round, by the monotonic clock. */
  #roundAt = Number.NEGATIVE_INFINITY;
  #timer: Timer | undefined;
  #closed = false;

  constructor(options: RoundsOptions<T>) {
    this.#options = options;
  }

  /** The item is visited in the next round. */
  add(item: T): void {
    this.#untilNewVersion.delete(item);
    this.#nextRound.add(item);
    this.#sliceAfter(this.#options.intervalMs);
  }

  remove(item: T): void {
    this.#waiting.remove(item.namespace, item);
    this.#nextRound.delete(item);
    this.#untilNewVersion.delete(item);
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  #sliceAfter(ms: number): void {
    if (this.#timer !== undefined || this.#closed) return;
    this.#timer = this.#options.clock.setTimer(ms, () => {
      this.#timer = undefined;
      this.#slice();
    });
  }

  #slice(): void {
    const { clock, onSlice } = this.#options;
    const started = clock.now();
    if (started >= this.#roundAt) this.#startRound(started);
    let now = started;
    while (now - started < SLICE_MS) {
      const item = this.#waiting.next();
      if (item === undefined) break;
      this.#visit(item);
      const end = clock.now();
      this.#shares.charge(item.namespace, end - now);
      now = end;
    }
    onSlice();
    const end = clock.now();
    const pause = Math.min((end - started) / SLICE_SHARE, MAX_PAUSE_MS);
    if (this.#waiting.size > 0) this.#sliceAfter(pause);
    else if (this.#nextRound.size + this.#untilNewVersion.size > 0)
      this.#sliceAfter(Math.max(this.#roundAt - end, pause));
  }

  /** Items that still wait since the previous round do not keep other items from being visited. */
  #startRound(now: number): void {
    this.#roundAt = now + this.#options.intervalMs;
    const version = this.#options.version();
    if (version !== this.#version) {
      for (const item of this.#untilNewVersion) this.#nextRound.add(item);
      this.#untilNewVersion.clear();
    }
    this.#version = version;
    for (const item of this.#nextRound) this.#waiting.add(item.namespace, item);
    this.#nextRound.clear();
  }

  #visit(item: T): void {
    const next = this.#options.visit(item);
    if (next === 'next-round') this.#nextRound.add(item);
    else if (next === 'new-version') this.#untilNewVersion.add(item);
  }
}
