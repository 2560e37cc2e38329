/**
 * Limits how many key sets are fetched at once. References whose last attempt failed may occupy at most half of the
 * slots, so that servers that do not respond, each for its whole time limit, never block others.
 */

/** The maximum number of concurrent fetches. */
const MAX_CONCURRENT = 32;
const PLACES_OF_FAILED = MAX_CONCURRENT / 2;

interface Waiting {
  readonly failed: boolean;
  readonly start: () => void;
}

export class ConcurrencyLimiter {
  #taken = 0;
  #takenByFailed = 0;
  /** In order of arrival. */
  readonly #waiting = new Set<Waiting>();

  /**
   * Waits for a free slot. Resolves with the function that releases it, to be called once. Rejects when `signal`
   * aborts.
   *
   * @param failed whether the last attempt failed
   */
  take(failed: boolean, signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        this.#waiting.delete(waiting);
        reject(signal.reason);
      };
      const waiting: Waiting = {
        failed,
        start: () => {
          signal.removeEventListener('abort', end);
          resolve(() => this.#free(failed));
        },
      };
      signal.addEventListener('abort', end, { once: true });
      this.#waiting.add(waiting);
      this.#start();
    });
  }

  #free(failed: boolean): void {
    this.#taken--;
    if (failed) this.#takenByFailed--;
    this.#start();
  }

  #start(): void {
    for (const waiting of this.#waiting) {
      if (this.#taken === MAX_CONCURRENT) return;
      if (waiting.failed && this.#takenByFailed === PLACES_OF_FAILED) continue;
      this.#waiting.delete(waiting);
      this.#taken++;
      if (waiting.failed) this.#takenByFailed++;
      waiting.start();
    }
  }
}
