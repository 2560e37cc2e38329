/**
 * The services of a datacenter that are to be read: those that changed at once, the others in a slow round.
 *
 * Failures. A service that fails waits by itself, and meanwhile another one finds out whether the registry can be read.
 * If nothing can, all wait. A service that fails again and again while others can be read has a problem of its own.
 */
import type { Clock, Timer } from '../../core/clock.ts';

export interface ReadQueueOptions {
  readonly clock: Clock;
  readonly maxRequests: number;
  /** Services that are read in rounds, in each second. */
  readonly sweepQps: number;
  /** The delay after this many failures in a row, ms. */
  readonly retryMs: (failures: number) => number;
  /** The same for failures of one service while others can be read. */
  readonly ownRetryMs: (failures: number) => number;
  /**
   * Reads a service. Returns from when on the result is current, monotonic ms.
   * @param isSuspect it has failed while others could be read
   */
  read(name: string, isSuspect: boolean): Promise<number>;
  onFailed(name: string, error: unknown, blame: Blame): void;
}

/** What a failure says: the service, or the registry, cannot be read; or nothing yet. */
export type Blame = 'service' | 'registry' | 'nothing';

/** A service that could not be read. */
interface Failing {
  /** Failures since it was read, those apart between which no other service could be read. */
  readonly failures: number;
  /** How many services had been read by the last failure. */
  readonly successes: number;
  /** It is not read until then, monotonic ms. */
  readonly until: number;
}

/** After this many failures while others can be read, the service is the cause. */
const OWN_FAILURES = 3;

export class ReadQueue {
  readonly #options: ReadQueueOptions;
  /** Services to read at once → from when on the result has to be current. */
  readonly #urgent = new Map<string, number>();
  /** All services, the one that was read the longest time ago first → from when on the result is current. */
  readonly #read = new Map<string, number>();
  readonly #reading = new Map<string, Promise<void>>();
  /** Something changed until then, monotonic ms. */
  #movedAt = Number.NEGATIVE_INFINITY;
  readonly #failing = new Map<string, Failing>();
  #index = 0;
  /** Failures since a service could be read, without those of services that are the cause themselves. */
  #failures = 0;
  #successes = 0;
  #nextSweepAt = Number.NEGATIVE_INFINITY;
  #pausedUntil = Number.NEGATIVE_INFINITY;
  #timer: { readonly at: number; readonly timer: Timer } | undefined;
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
    for (const name of this.#failing.keys()) if (!listed.has(name)) this.#failing.delete(name);
    for (const name of names) if (!this.#read.has(name)) this.#read.set(name, Number.NEGATIVE_INFINITY);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.timer.cancel();
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
      const name = this.#next();
      if (name === undefined) return;
      this.#start(name);
    }
  }

  #next(): string | undefined {
    if (this.#failures === 0) return this.#nextUrgent() ?? this.#nextOfSweep();
    // A service that has not failed itself says most about the registry.
    const fresh = [this.#urgent, this.#read].map((names) => this.#firstOf(names, (name) => !this.#failing.has(name)));
    return fresh[0] ?? fresh[1] ?? this.#nextUrgent();
  }

  #firstOf(names: ReadonlyMap<string, number>, isWanted: (name: string) => boolean): string | undefined {
    for (const name of names.keys()) if (!this.#reading.has(name) && isWanted(name)) return name;
    return undefined;
  }

  #nextUrgent(): string | undefined {
    const now = this.#options.clock.now();
    const isSuspectRead = [...this.#reading.keys()].some((name) => this.#isSuspect(name));
    let earliest = Number.POSITIVE_INFINITY;
    const found = this.#firstOf(this.#urgent, (name) => {
      // One at a time: they may all take as long as a request may.
      if (isSuspectRead && this.#isSuspect(name)) return false;
      const until = this.#failing.get(name)?.until ?? now;
      if (until > now) earliest = Math.min(earliest, until);
      return until <= now;
    });
    if (found === undefined && Number.isFinite(earliest)) this.#wake(earliest);
    return found;
  }

  #isSuspect(name: string): boolean {
    return (this.#failing.get(name)?.failures ?? 0) >= OWN_FAILURES;
  }

  #nextOfSweep(): string | undefined {
    const { clock, sweepQps } = this.#options;
    // Those that failed are urgent.
    const name = this.#firstOf(this.#read, (each) => !this.#failing.has(each));
    if (name === undefined || (this.#read.get(name) ?? 0) >= this.#movedAt) return undefined;
    const now = clock.now();
    if (now < this.#nextSweepAt) {
      this.#wake(this.#nextSweepAt);
      return undefined;
    }
    this.#nextSweepAt = Math.max(this.#nextSweepAt, now - 1000 / sweepQps) + 1000 / sweepQps;
    return name;
  }

  #start(name: string): void {
    const wanted = this.#urgent.get(name);
    this.#urgent.delete(name);
    this.#placeLast(name, this.#read.get(name) ?? Number.NEGATIVE_INFINITY);
    const done = this.#options.read(name, this.#isSuspect(name)).then(
      (asOf) => this.#succeeded(name, asOf, wanted),
      (error: unknown) => this.#failed(name, error, wanted),
    );
    this.#reading.set(name, done);
  }

  #succeeded(name: string, asOf: number, wanted: number | undefined): void {
    this.#reading.delete(name);
    this.#failing.delete(name);
    this.#failures = 0;
    this.#successes++;
    if (this.#read.has(name)) {
      this.#placeLast(name, asOf);
      // A server that lags behind may not have known the change.
      if (wanted !== undefined && asOf < wanted && !this.#urgent.has(name)) this.#urgent.set(name, wanted);
    }
    this.#pump();
  }

  #failed(name: string, error: unknown, wanted: number | undefined): void {
    const { clock, retryMs, ownRetryMs, onFailed } = this.#options;
    const now = clock.now();
    this.#reading.delete(name);
    const { failures: before, successes } = this.#failing.get(name) ?? { failures: 0, successes: -1 };
    const failures = this.#successes > successes ? before + 1 : before;
    if (this.#read.has(name)) {
      if (!this.#urgent.has(name)) this.#urgent.set(name, wanted ?? Number.NEGATIVE_INFINITY);
      this.#failing.set(name, { failures, successes: this.#successes, until: now + ownRetryMs(failures) });
    }
    if (failures >= OWN_FAILURES) onFailed(name, error, 'service');
    else {
      this.#failures++;
      // After the first failure, another service is read at once.
      if (this.#failures > 1) this.#pausedUntil = now + retryMs(this.#failures - 1);
      onFailed(name, error, this.#failures > 1 ? 'registry' : 'nothing');
    }
    this.#pump();
  }

  #placeLast(name: string, asOf: number): void {
    this.#read.delete(name);
    this.#read.set(name, asOf);
  }

  #wake(at: number): void {
    const { clock } = this.#options;
    if (this.#timer !== undefined && this.#timer.at <= at) return;
    this.#timer?.timer.cancel();
    const timer = clock.setTimer(Math.ceil(Math.max(0, at - clock.now())), () => {
      this.#timer = undefined;
      this.#pump();
    });
    this.#timer = { at, timer };
  }
}
