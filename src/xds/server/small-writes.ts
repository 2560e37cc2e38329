/**
 * Pushes of a few bytes need no slot of the queue until they have left for the socket: what slots bound is the memory
 * that waits there. An endpoint's change is a kilobyte for each of a thousand proxies; with slots, every hundred of
 * them would wait for the event loop to come round, which meanwhile reads the acknowledgements of the hundred before.
 */

/** Larger pushes keep their slots. */
const MAX_BYTES = 2048;

/**
 * Unslotted pushes that may wait for their sockets at a time: 2 MB, and some 40 ms of work in one turn of the event
 * loop.
 */
const MAX_WAITING = 1024;

export class SmallWrites {
  #waiting = 0;

  /** True when a push of so many bytes needs no slot; `left` is to be called when it has left, or never will. */
  admit(bytes: number): boolean {
    if (bytes > MAX_BYTES || this.#waiting >= MAX_WAITING) return false;
    this.#waiting++;
    return true;
  }

  left(): void {
    this.#waiting--;
  }
}
