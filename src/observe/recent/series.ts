/**
 * What happened in the last 30 minutes, in intervals of 10 s: a ring of fixed size, so that charts need no Prometheus.
 * An event costs some additions.
 */
import type { Timer } from '../../core/clock.ts';
import type { RecentSeries } from './shapes.ts';
import { Times } from './times.ts';

const INTERVAL_MS = 10_000;
/** The last one is the interval that has not ended. */
const INTERVALS = 181;

/** The state at the end of an interval. */
export interface Levels {
  readonly proxies: number;
  /** Pushes that wait for their turn. */
  readonly queued: number;
  /** Bytes of memory of the process, and of them the JavaScript heap of the main thread. */
  readonly rss: number;
  readonly heap: number;
}

class Interval {
  /** Number of intervals since 1970; 0: unused. */
  number = 0;
  pushes = 0;
  bytes = 0;
  changes = 0;
  rejections = 0;
  levels: Levels | undefined;
  readonly convergence = new Times();

  begin(number: number): void {
    this.number = number;
    this.pushes = 0;
    this.bytes = 0;
    this.changes = 0;
    this.rejections = 0;
    this.levels = undefined;
    this.convergence.clear();
  }
}

export interface SeriesOptions {
  /** Unix time, ms. */
  readonly wall: () => number;
  readonly later: (ms: number, run: () => void) => Timer;
}

export class SeriesRing {
  readonly #options: SeriesOptions;
  readonly #ring = Array.from({ length: INTERVALS }, () => new Interval());
  readonly #startedAt: number;
  #levels: (() => Levels) | undefined;
  #timer: Timer | undefined;

  constructor(options: SeriesOptions) {
    this.#options = options;
    this.#startedAt = this.#number();
  }

  /** Reads the levels at the end of each interval, until `close`. */
  sample(levels: () => Levels): void {
    this.#levels = levels;
    this.#sampleLater();
  }

  close(): void {
    this.#timer?.cancel();
    this.#levels = undefined;
  }

  pushed(bytes: number): void {
    const interval = this.#now();
    interval.pushes++;
    interval.bytes += bytes;
  }

  changed(): void {
    this.#now().changes++;
  }

  rejected(): void {
    this.#now().rejections++;
  }

  converged(ms: number): void {
    this.#now().convergence.add(ms);
  }

  recent(): RecentSeries {
    const last = this.#number();
    const first = Math.max(this.#startedAt, last - INTERVALS + 1);
    const intervals = Array.from({ length: last - first + 1 }, (_, index) => this.#at(first + index));
    const values = <T>(one: (interval: Interval | undefined) => T): T[] => intervals.map(one);
    const now = this.#levels?.();
    // The interval that has not ended is shorter.
    const seconds = (index: number): number =>
      index < intervals.length - 1 ? INTERVAL_MS / 1000 : Math.max(1, (this.#options.wall() % INTERVAL_MS) / 1000);
    const perSecond = (one: (interval: Interval) => number): number[] =>
      intervals.map((interval, index) => (interval === undefined ? 0 : rounded(one(interval) / seconds(index))));
    const level = (name: keyof Levels) =>
      intervals.map((interval, index) => (index < intervals.length - 1 ? interval?.levels : now)?.[name] ?? null);
    return {
      intervalSeconds: INTERVAL_MS / 1000,
      times: intervals.map((_, index) => ((first + index) * INTERVAL_MS) / 1000),
      pushesPerSecond: perSecond(({ pushes }) => pushes),
      bytesPerSecond: perSecond(({ bytes }) => bytes),
      changesPerSecond: perSecond(({ changes }) => changes),
      rejections: values((interval) => interval?.rejections ?? 0),
      convergenceP50: values((interval) => quantile(interval, 0.5)),
      convergenceP99: values((interval) => quantile(interval, 0.99)),
      proxies: level('proxies'),
      queued: level('queued'),
      rss: level('rss'),
      heap: level('heap'),
    };
  }

  #number(): number {
    return Math.floor(this.#options.wall() / INTERVAL_MS);
  }

  /** The interval of an event. */
  #now(): Interval {
    return this.#begun(this.#number());
  }

  #begun(number: number): Interval {
    const interval = this.#ring[number % INTERVALS] as Interval;
    if (interval.number !== number) interval.begin(number);
    return interval;
  }

  #at(number: number): Interval | undefined {
    const interval = this.#ring[number % INTERVALS];
    return interval?.number === number ? interval : undefined;
  }

  #sampleLater(): void {
    const left = INTERVAL_MS - (this.#options.wall() % INTERVAL_MS);
    // Shortly before the end, so that the levels belong to this interval.
    const ms = left > 200 ? left - 100 : left + INTERVAL_MS - 100;
    const number = Math.floor((this.#options.wall() + ms) / INTERVAL_MS);
    this.#timer = this.#options.later(ms, () => {
      if (this.#levels === undefined) return;
      // Also when the program was busy and the next interval has begun.
      this.#begun(number).levels = this.#levels();
      this.#sampleLater();
    });
  }
}

function quantile(interval: Interval | undefined, part: number): number | null {
  const ms = interval?.convergence.quantile(part);
  return ms === undefined ? null : rounded(ms);
}

/** Two digits after the point. */
function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
