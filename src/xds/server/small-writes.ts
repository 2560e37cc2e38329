/**
 * Lets small pushes release their slot of the push queue before their bytes have left for the socket: slots bound the
 * memory that waits there. A changed endpoint is a kilobyte for each of a thousand proxies. If those kept their slots,
 * every hundred of them would wait for the next turn of the event loop, which first reads the acknowledgements of the
 * hundred before.
 */

/** Larger pushes keep their slots. */
const MAX_BYTES = 2048;

/**
 * Most pushes without a slot that wait for their sockets: 2 MB, and about 40 ms of work in a turn of the event loop.
 */
const MAX_WAITING = 1024;

export class SmallWrites {
  #waiting = 0;

  /** True when a push of this size needs no slot; then `left` has to be called once its bytes have left, or cannot. */
  admit(bytes: number): boolean {
    if (bytes > MAX_BYTES || this.#waiting >= MAX_WAITING) return false;
    this.#waiting++;
    return true;
  }

  left(): void {
    this.#waiting--;
  }
}
