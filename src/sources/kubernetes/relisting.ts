/**
 * Lists a collection again after changes could not be applied, with a delay that grows with each failure, so that one
 * object that cannot be applied does not cause endless lists of its whole kind.
 */
import { backoff } from '../../core/backoff.ts';
import type { Clock, Timer } from '../../core/clock.ts';

/** The first delay and the maximum delay of a list, ms. */
const RETRY_BASE_MS = 100;
const RETRY_MAX_MS = 60_000;
/** After this long without a failure, ms, the delay starts again at RETRY_BASE_MS. */
const CALM_MS = 2 * RETRY_MAX_MS;

export class Relisting {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #list: () => void;
  #failures = 0;
  /** Monotonic ms. */
  #listedAt = Number.NEGATIVE_INFINITY;
  #timer: Timer | undefined;

  /** @param random 0 ≤ x < 1 */
  constructor(clock: Clock, random: () => number, list: () => void) {
    this.#clock = clock;
    this.#random = random;
    this.#list = list;
  }

  /** Changes were lost. */
  failed(): void {
    if (this.#timer !== undefined) return;
    if (this.#clock.now() - this.#listedAt > CALM_MS) this.#failures = 0;
    this.#failures++;
    const wait = backoff(this.#failures, RETRY_BASE_MS, RETRY_MAX_MS, this.#random);
    this.#timer = this.#clock.setTimer(wait, () => {
      this.#timer = undefined;
      this.#listedAt = this.#clock.now();
      this.#list();
    });
  }

  /** Called when the collection is listed for another reason, or is no longer followed. */
  cancel(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }
}
