/**
 * Frames that cost their sender nothing and us something: pings, settings, resets, empty frames, windows that grow by a
 * few bytes. A client that behaves sends few; one that sends thousands a second attacks (CVE-2019-9511, -9512, -9514,
 * -9515, -9518, CVE-2023-44487, CVE-2024-27316, CVE-2025-8671).
 */

/** In so much time … */
const WINDOW_MS = 10_000;

/** … so many are taken: a thousand calls that are all cancelled, or a ping every 10 ms. */
const MAX_IN_WINDOW = 1000;

export class FrameBudget {
  #begun = 0;
  #spent = 0;

  /**
   * False when there were too many.
   * @param nowMs any clock that goes forward
   * @param cost how many frames it counts as
   */
  spend(nowMs: number, cost = 1): boolean {
    if (nowMs - this.#begun > WINDOW_MS) {
      this.#begun = nowMs;
      this.#spent = 0;
    }
    this.#spent += cost;
    return this.#spent <= MAX_IN_WINDOW;
  }
}
