/** The services of a datacenter that are to be read: those that changed at once, the others in a slow round. */
import type { Clock, Timer } from '../../core/clock.ts';

export interface ReadQueueOptions {
  readonly clock: Clock;
  readonly maxRequests: number;
  /** Services that are read in rounds, in each second. */
  readonly sweepQps: number;
  /** The delay after this many failures in a row, ms. */
  readonly retryMs: (failures: number) => number;
  /** Reads a service. Returns from when on the result is current, monotonic ms. */
  read(name: string): Promise<number>;
}

export class ReadQueue {
  readonly #options: ReadQueueOptions;
  /** Services to read at once → from when on the result has to be current. */
  readonly #urgent = new Map<string, number>();
  /** All services, the one that was read the longest time ago first → from when on the result is current. */
  readonly #read = new Map<string, number>();
  readonly #reading = new Map<string, Promise<void>>();
  /** Something changed until then, monotonic ms. */
  #movedAt = Number.NEGATIVE_INFINITY;
  #index = 0;
  #failures = 0;
  #nextSweepAt = Number.NEGATIVE_INFINITY;
  #pausedUntil = Number.NEGATIVE_INFINITY;
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(options: ReadQueueOptions) {
    this.#options = options;
  }

  /** Reads these services at once. */
  add(names: readonly string[]): void {
    const now = this.#options.clock.now();
    for (const name of names) this.#urgent.set(name, now);
    this.#pump();
  }

  /**
   * The list of services is this, and if its index is another one, some of them changed until `at`, monotonic ms. New
   * ones are to be added as well.
   */
  moved(index: number, names: readonly string[], at: number): void {
    if (index !== this.#index) this.#movedAt = at;
    this.#index = index;
    const listed = new Set(names);
    for (const name of this.#read.keys()) if (!listed.has(name)) this.#read.delete(name);
    for (const name of this.#urgent.keys()) if (!listed.has(name)) this.#urgent.delete(name);
    for (const name of names) if (!this.#read.has(name)) this.#read.set(name, Number.NEGATIVE_INFINITY);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    await Promise.all(this.#reading.values());
  }

  #pump(): void {
    const { clock, maxRequests } = this.#options;
    if (this.#isClosed) return;
    if (clock.now() < this.#pausedUntil) {
      this.#wake(this.#pausedUntil);
      return;
    }
    // After failures, one request finds out whether the registry is back.
    const limit = this.#failures > 0 ? 1 : maxRequests;
    while (this.#reading.size < limit) {
      const name = this.#nextUrgent() ?? this.#nextOfSweep();
      if (name === undefined) return;
      this.#start(name);
    }
  }

  #nextUrgent(): string | undefined {
    for (const name of this.#urgent.keys()) if (!this.#reading.has(name)) return name;
    return undefined;
  }

  #nextOfSweep(): string | undefined {
    const { clock, sweepQps } = this.#options;
    const [first] = this.#read;
    if (first === undefined || first[1] >= this.#movedAt || this.#reading.has(first[0])) return undefined;
    const now = clock.now();
    if (now < this.#nextSweepAt) {
      this.#wake(this.#nextSweepAt);
      return undefined;
    }
    this.#nextSweepAt = Math.max(this.#nextSweepAt, now - 1000 / sweepQps) + 1000 / sweepQps;
    return first[0];
  }

  #start(name: string): void {
    const wanted = this.#urgent.get(name);
    this.#urgent.delete(name);
    this.#placeLast(name, this.#read.get(name) ?? Number.NEGATIVE_INFINITY);
    const done = this.#options.read(name).then(
      (asOf) => this.#succeeded(name, asOf, wanted),
      () => this.#failed(name, wanted),
    );
    this.#reading.set(name, done);
  }

  #succeeded(name: string, asOf: number, wanted: number | undefined): void {
    this.#reading.delete(name);
    this.#failures = 0;
    if (this.#read.has(name)) {
      this.#placeLast(name, asOf);
      // A server that lags behind may not have known the change.
      if (wanted !== undefined && asOf < wanted && !this.#urgent.has(name)) this.#urgent.set(name, wanted);
    }
    this.#pump();
  }

  #failed(name: string, wanted: number | undefined): void {
    const { clock, retryMs } = this.#options;
    this.#reading.delete(name);
    if (this.#read.has(name) && !this.#urgent.has(name)) this.#urgent.set(name, wanted ?? Number.NEGATIVE_INFINITY);
    this.#failures++;
    this.#pausedUntil = clock.now() + retryMs(this.#failures);
    this.#pump();
  }

  #placeLast(name: string, asOf: number): void {
    this.#read.delete(name);
    this.#read.set(name, asOf);
  }

  #wake(at: number): void {
    const { clock } = this.#options;
    if (this.#timer !== undefined) return;
    this.#timer = clock.setTimer(Math.ceil(Math.max(0, at - clock.now())), () => {
      this.#timer = undefined;
      this.#pump();
    });
  }
}
