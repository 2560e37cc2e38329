/** What the runtime measures; the thread sends it to the main thread, which has the metrics. */
import type { Variety } from '../types.ts';

/** One dispatch to a handler. */
export interface DispatchStat {
  readonly adapter: string;
  readonly failed: boolean;
  readonly seconds: number;
}

/** A change of the handlers by a configuration. */
export interface TransitionStats {
  readonly opened: number;
  readonly reused: number;
  readonly closed: number;
  readonly openFailures: number;
  readonly closeFailures: number;
}

export interface RuntimeStats {
  readonly dispatches: readonly DispatchStat[];
  /** By request. */
  readonly destinations: readonly number[];
  readonly instances: readonly number[];
}

export type VarietyCounts = Readonly<Record<Variety, number>>;

/** Requests that are measured until the next report; more are left out of the distributions. */
const MAX_KEPT = 20_000;

export class RuntimeMeter {
  #dispatches: DispatchStat[] = [];
  #destinations: number[] = [];
  #instances: number[] = [];

  dispatched(stat: DispatchStat): void {
    if (this.#dispatches.length < MAX_KEPT) this.#dispatches.push(stat);
  }

  request(destinations: number, instances: number): void {
    if (this.#destinations.length >= MAX_KEPT) return;
    this.#destinations.push(destinations);
    this.#instances.push(instances);
  }

  /** What was measured since the last call; undefined when it is nothing. */
  take(): RuntimeStats | undefined {
    if (this.#dispatches.length + this.#destinations.length === 0) return undefined;
    const stats = { dispatches: this.#dispatches, destinations: this.#destinations, instances: this.#instances };
    this.#dispatches = [];
    this.#destinations = [];
    this.#instances = [];
    return stats;
  }
}
