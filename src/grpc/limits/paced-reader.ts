/**
 * Reads the bytes of one connection in slices. One read returns up to 256 KiB, in which a client can put thousands of
 * calls: processed at once, they would block the event loop, and with it every other client, for a second. So a
 * connection reads for one slice of time. The remaining bytes wait in memory while its socket is paused, and are read
 * in later turns of the event loop. Connections with few bytes wait only in turns that are used up.
 */
import type { Task, TurnScheduler } from './turn-scheduler.ts';

export interface PacedReaderOptions {
  readonly scheduler: TurnScheduler;
  /** Whose time reading takes; may change. */
  readonly caller: () => string;
  /** Reads until `late` returns true; returns the number of bytes read. */
  readonly read: (bytes: Buffer, late: () => boolean) => number;
  /** Pause and resume the socket. */
  readonly pause: () => void;
  readonly resume: () => void;
}

export class PacedReader implements Task {
  readonly #options: PacedReaderOptions;
  /** Copies of unread bytes: of one read, and of what was decrypted together with it. */
  readonly #left: Buffer[] = [];

  constructor(options: PacedReaderOptions) {
    this.#options = options;
  }

  get caller(): string {
    return this.#options.caller();
  }

  /** Reads the bytes, or a part of them now. They are valid until the return. */
  take(bytes: Buffer): void {
    if (this.#left.length > 0) {
      this.#left.push(Buffer.from(bytes));
      return;
    }
    const { scheduler, pause } = this.#options;
    const { caller } = this;
    const read = scheduler.isYoung(caller) ? scheduler.run(caller, () => this.#read(bytes)) : 0;
    if (read === bytes.length) return;
    this.#left.push(Buffer.from(bytes.subarray(read)));
    pause();
    scheduler.enqueue(this);
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
    this.#options.resume();
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
