/**
 * Decides when failed lists and watches are retried. Each waits for its own growing delay. In addition, all failed
 * requests to an API server share a probe: about once a second, the request that has waited longest is retried. When a
 * probe succeeds, all of them are retried at once.
 *
 * The program therefore notices within about a second that a server is available again or that permissions were granted
 * again. The cost is one small request a second for each replica while requests fail.
 */
import { type Clock, sleep } from '../core/clock.ts';

/** Time between two probes, ms: the upper bound, shortened at random by up to PROBE_JITTER of itself. */
export const PROBE_MS = 1000;
export const PROBE_JITTER = 0.5;
/** After this many consecutive failed probes, the interval is SLOW_PROBE_MS: permissions may be missing permanently. */
const SLOW_AFTER = 60;
const SLOW_PROBE_MS = 5000;

export interface RetryOptions {
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
}

interface Waiting {
  readonly wake: AbortController;
  /** The earliest time of the next attempt (the server may ask for a delay), ms of the monotonic clock. */
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
   * Resolves when a failed request is to be retried: after `delayMs`, as a probe, or because another request has
   * succeeded.
   *
   * @param minimumMs the time before which it must not be retried
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

  /** While requests wait, wakes the one that has waited longest, periodically. */
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
