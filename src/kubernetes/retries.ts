/**
 * When lists and watches that an API server refused, or did not serve, are tried again. All of one server share the
 * attempts: each waits for its own delay, which grows; one of them, in turn, is the probe that is tried about once a
 * second; and when a probe succeeds, all of them are tried at once.
 *
 * A server that is back, or rights that are given back, are therefore noticed within about a second, at the cost of one
 * small request a second for each replica while something fails.
 */
import { type Clock, sleep } from '../core/clock.ts';

/** Time between two probes, ms: the upper bound, shortened at random by up to PROBE_JITTER of itself. */
export const PROBE_MS = 1000;
export const PROBE_JITTER = 0.5;
/** After so many probes in a row without a success, ms of the slower probes: rights can be missing for good. */
const SLOW_AFTER = 60;
const SLOW_PROBE_MS = 5000;

export interface RetryOptions {
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
}

interface Waiting {
  readonly wake: AbortController;
  /** Not tried before, as the server has asked, by the monotonic clock, ms. */
  readonly notBefore: number;
}

export class Retries {
  readonly #options: RetryOptions;
  /** Requests in the order in which they began to wait. */
  readonly #waiting = new Set<Waiting>();
  /** Consecutive probes without a success. */
  #probes = 0;
  #probing = false;

  constructor(options: RetryOptions) {
    this.#options = options;
  }

  /**
   * Resolves when a failed request is to be made again: after `delayMs`, as a probe, or because another one has
   * succeeded.
   *
   * @param minimumMs until it may be made at all
   */
  async wait(delayMs: number, minimumMs: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const wake = new AbortController();
    const waiting = { wake, notBefore: clock.now() + minimumMs };
    this.#waiting.add(waiting);
    void this.#probe();
    await sleep(clock, Math.max(delayMs, minimumMs), AbortSignal.any([signal, wake.signal]));
    this.#waiting.delete(waiting);
  }

  /** Called when a request that had failed has succeeded. */
  succeeded(): void {
    this.#probes = 0;
    for (const { wake, notBefore } of [...this.#waiting]) if (notBefore <= this.#options.clock.now()) wake.abort();
  }

  /** While any request waits: wakes the one that has waited longest, again and again. */
  async #probe(): Promise<void> {
    if (this.#probing) return;
    this.#probing = true;
    const { clock } = this.#options;
    while (this.#waiting.size > 0) {
      await sleep(clock, this.#interval(), NEVER);
      const now = clock.now();
      const first = [...this.#waiting].find(({ notBefore }) => notBefore <= now);
      if (first === undefined) continue;
      this.#probes++;
      first.wake.abort();
    }
    this.#probing = false;
  }

  #interval(): number {
    const longest = this.#probes < SLOW_AFTER ? PROBE_MS : SLOW_PROBE_MS;
    return longest * (1 - PROBE_JITTER * this.#options.random());
  }
}

const NEVER = new AbortController().signal;
