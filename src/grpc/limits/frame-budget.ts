/**
 * Limits frames that are cheap to send and costly to process: pings, settings, resets, empty frames, small window
 * updates. A normal client sends few; thousands a second are an attack (CVE-2019-9511, -9512, -9514, -9515, -9518,
 * CVE-2023-44487, CVE-2024-27316, CVE-2025-8671).
 */

/** Length of a window. */
const WINDOW_MS = 10_000;

/** Maximum number of frames in a window: a thousand calls that are all cancelled, or a ping every 10 ms. */
const MAX_IN_WINDOW = 1000;

export class FrameBudget {
  #begun = 0;
  #spent = 0;

  /**
   * Counts a frame. False when there were too many.
   * @param nowMs monotonic ms
   * @param cost number of frames that it counts as
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
