/**
 * Lists a collection again after changes could not be taken over: soon at first, and later each time that fails as
 * well, so that one object that cannot be taken over does not have its whole kind listed over and over.
 */
import { backoff } from '../../core/backoff.ts';
import type { Clock, Timer } from '../../core/clock.ts';

/** The delay of the first list, and that of any, at most, ms. */
const RETRY_BASE_MS = 100;
const RETRY_MAX_MS = 60_000;
/** After as long as this without a failure, ms, the next one is the first again. */
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

  /** Called when it is listed for another reason, or is no longer followed. */
  cancel(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }
}
