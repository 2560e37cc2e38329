/**
 * Whose turn it is to be looked at. Looks are made in slices, which leave most of the thread's time to other work, and
 * namespaces share the time of the slices: one with many or expensive proxies delays the others by its share only.
 */
import type { Clock, Timer } from '../../core/clock.ts';
import { TimeFairQueue } from '../../core/fairness/time-fair-queue.ts';
import { TimeShares } from '../../core/fairness/time-shares.ts';

/** When an item is looked at again: never by itself, once the version has changed, or in the next round. */
export type NextLook = 'none' | 'new-version' | 'next-round';

export interface LookQueueOptions<T> {
  readonly clock: Clock;
  /** The version of the snapshot that is served. */
  readonly version: () => number;
  look(item: T): NextLook;
  /** A slice of looks was made. */
  onSlice(): void;
}

/** Between two rounds, ms. */
const LOOK_MS = 250;
/** After this time no further look of a slice begins, ms. */
const SLICE_MS = 5;
/** The share of time that slices may take. */
const LOOK_SHARE = 1 / 20;

export class LookQueue<T extends { readonly namespace: string }> {
  readonly #options: LookQueueOptions<T>;
  readonly #shares = new TimeShares();
  readonly #waiting = new TimeFairQueue<T>(this.#shares);
  readonly #nextRound = new Set<T>();
  readonly #untilNewVersion = new Set<T>();
  #version = Number.NaN;
  #timer: Timer | undefined;
  #closed = false;

  constructor(options: LookQueueOptions<T>) {
    this.#options = options;
  }

  /** Looks at the item in the next round. */
  add(item: T): void {
    this.#untilNewVersion.delete(item);
    this.#nextRound.add(item);
    this.#sliceAfter(LOOK_MS);
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
    this.#startRound();
    let now = started;
    while (now - started < SLICE_MS) {
      const item = this.#waiting.next();
      if (item === undefined) break;
      this.#look(item);
      const end = clock.now();
      this.#shares.charge(item.namespace, end - now);
      now = end;
    }
    onSlice();
    const pause = (clock.now() - started) / LOOK_SHARE;
    if (this.#waiting.size > 0) this.#sliceAfter(pause);
    else if (this.#nextRound.size + this.#untilNewVersion.size > 0) this.#sliceAfter(Math.max(LOOK_MS, pause));
  }

  /** What waits longer than a round does not keep others from theirs. */
  #startRound(): void {
    const version = this.#options.version();
    if (version !== this.#version) {
      for (const item of this.#untilNewVersion) this.#nextRound.add(item);
      this.#untilNewVersion.clear();
    }
    this.#version = version;
    for (const item of this.#nextRound) this.#waiting.add(item.namespace, item);
    this.#nextRound.clear();
  }

  #look(item: T): void {
    const next = this.#options.look(item);
    if (next === 'next-round') this.#nextRound.add(item);
    else if (next === 'new-version') this.#untilNewVersion.add(item);
  }
}
