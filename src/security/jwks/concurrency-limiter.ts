/**
 * ConcurrencyLimiter at fetching: so many at once and no more. Those whose last attempt failed have half of the places at most, so
 * that key servers that hang, each for its whole time limit, never hold up those that answer.
 */

/** Sockets at once. */
const PLACES = 32;
const PLACES_OF_FAILED = PLACES / 2;

interface Waiting {
  readonly failed: boolean;
  readonly start: () => void;
}

export class ConcurrencyLimiter {
  #taken = 0;
  #takenByFailed = 0;
  /** In order of arrival. */
  readonly #waiting = new Set<Waiting>();

  /** Resolves with how to give the place back, once. Rejects when `signal` ends the waiting. */
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
      if (this.#taken === PLACES) return;
      if (waiting.failed && this.#takenByFailed === PLACES_OF_FAILED) continue;
      this.#waiting.delete(waiting);
      this.#taken++;
      if (waiting.failed) this.#takenByFailed++;
      waiting.start();
    }
  }
}
