/**
 * Reads the bytes of one connection in slices. One read returns up to 256 KiB, in which a client can put thousands of
 * calls: processed at once, they would block the event loop, and with it every other client, for a second. So a
 * connection reads for one slice of time. The remaining bytes wait in memory and are read in later turns of the event
 * loop; if they are many, the socket is paused meanwhile. Connections with few bytes wait only if the time of a turn is
 * used up, and are not paused: pausing and resuming a socket costs as much as reading an acknowledgement.
 */
import type { Task, TurnScheduler } from './turn-scheduler.ts';

/** Up to this many bytes, in this many parts, may wait without pausing the socket. */
const MAX_UNPAUSED_BYTES = 4096;
const MAX_UNPAUSED_PARTS = 8;

export interface PacedReaderOptions {
  readonly scheduler: TurnScheduler;
  /** The caller to which the time of reading is charged; may change. */
  readonly caller: () => string;
  /** Reads until `late` returns true; returns the number of bytes read. */
  readonly read: (bytes: Buffer, late: () => boolean) => number;
  /** Pause and resume the socket. */
  readonly pause: () => void;
  readonly resume: () => void;
}

export class PacedReader implements Task {
  readonly #options: PacedReaderOptions;
  /** Copies of unread bytes: at most those of one read, and of the data that was decrypted with it. */
  readonly #left: Buffer[] = [];
  /** Number of bytes that were queued since the queue was last empty. */
  #waited = 0;
  #paused = false;

  constructor(options: PacedReaderOptions) {
    this.#options = options;
  }

  get caller(): string {
    return this.#options.caller();
  }

  /** Reads the bytes, or a part of them now. They are valid until the return. */
  take(bytes: Buffer): void {
    if (this.#left.length > 0) {
      this.#keep(bytes);
      return;
    }
    const { scheduler } = this.#options;
    const { caller } = this;
    const read = scheduler.isYoung(caller) ? scheduler.run(caller, () => this.#read(bytes)) : 0;
    if (read === bytes.length) return;
    this.#keep(bytes.subarray(read));
    scheduler.enqueue(this);
  }

  #keep(bytes: Buffer): void {
    this.#left.push(Buffer.from(bytes));
    this.#waited += bytes.length;
    if (this.#paused || (this.#waited <= MAX_UNPAUSED_BYTES && this.#left.length <= MAX_UNPAUSED_PARTS)) return;
    this.#paused = true;
    this.#options.pause();
  }

  /** Continues for one slice. False when unread bytes are left. */
  proceed(): boolean {
    const [first] = this.#left;
    if (first !== undefined) {
      const rest = first.subarray(this.#read(first));
      // Reading may have closed the connection.
      if (rest.length > 0 && this.#left.length > 0) this.#left[0] = rest;
      else this.#left.shift();
      if (this.#left.length > 0) return false;
    }
    this.#waited = 0;
    if (this.#paused) this.#options.resume();
    this.#paused = false;
    return true;
  }

  #read(bytes: Buffer): number {
    const { scheduler, read } = this.#options;
    return read(bytes, scheduler.late);
  }

  /** The connection has closed: drops unread bytes. */
  close(): void {
    this.#left.length = 0;
    this.#options.scheduler.forget(this);
  }
}
