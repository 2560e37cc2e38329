/**
 * Shares the time for reading between connections. One read returns up to 256 KiB, in which a client can put thousands
 * of calls: processed at once, they would block the event loop, and with it every other client, for a second. So a
 * connection reads for one slice of time. The remaining bytes wait in memory while its socket is paused, and are read
 * in later turns of the event loop, in order with other connections that wait. Connections with few bytes never wait.
 */

/**
 * Time of one connection, ms. A read of what proxies send when they connect, some 100 kB of names, takes less. The
 * handlers of calls may take as long again afterwards.
 */
const SLICE_MS = 2;

/** The slice in a turn of the event loop in which many connections read much, ms. */
const SHORT_SLICE_MS = 0.5;
/** Duration of a turn after which that slice is used, ms. */
const BUSY_MS = 20;

/** Time of all waiting connections in one turn of the event loop, ms. */
const ROUND_MS = 4;

export interface ReadSchedulerOptions {
  /** Monotonic ms. */
  readonly now: () => number;
  /** Calls `run` in this turn of the event loop after its sockets; setImmediate when left out. */
  readonly later?: (run: () => void) => void;
}

/** Schedules the reads of all connections of a server. */
export class ReadScheduler {
  readonly #now: () => number;
  readonly #later: (run: () => void) => void;
  /** In order. */
  readonly #waiting = new Set<PacedReader>();
  /** Start of the first slice in this turn of the event loop. */
  #turnBegun = 0;
  #until = 0;
  /** A round is scheduled for the end of this turn. */
  #scheduled = false;

  constructor({ now, later = setImmediate }: ReadSchedulerOptions) {
    this.#now = now;
    this.#later = later;
  }

  /** True when the slice is over. To be called between the steps of reading. */
  readonly late = (): boolean => this.#now() >= this.#until;

  /** Begins a slice. */
  begin(): void {
    const now = this.#now();
    if (!this.#scheduled) this.#turnBegun = now;
    this.#until = now + (now - this.#turnBegun < BUSY_MS ? SLICE_MS : SHORT_SLICE_MS);
    this.#schedule();
  }

  /** Lets the reader continue later, after those that wait already. */
  enqueue(reader: PacedReader): void {
    this.#waiting.add(reader);
    this.#schedule();
  }

  /** The reader was closed. */
  forget(reader: PacedReader): void {
    this.#waiting.delete(reader);
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#later(() => this.#round());
  }

  /** Runs after the sockets of a turn of the event loop. */
  #round(): void {
    this.#scheduled = false;
    const ends = this.#now() + ROUND_MS;
    for (const reader of this.#waiting) {
      this.#waiting.delete(reader);
      if (!reader.readOn()) this.#waiting.add(reader);
      if (this.#now() >= ends) break;
    }
    if (this.#waiting.size > 0) this.#schedule();
  }
}

export interface PacedReaderOptions {
  readonly scheduler: ReadScheduler;
  /** Reads until `late` returns true; returns the number of bytes read. */
  readonly read: (bytes: Buffer, late: () => boolean) => number;
  /** Pause and resume the socket. */
  readonly pause: () => void;
  readonly resume: () => void;
}

/** Reads the bytes of one connection in slices. */
export class PacedReader {
  readonly #options: PacedReaderOptions;
  /** Copies of unread bytes: of one read, and of what was decrypted together with it. */
  readonly #left: Buffer[] = [];

  constructor(options: PacedReaderOptions) {
    this.#options = options;
  }

  /** Reads the bytes, or a part of them now. They are valid until the return. */
  take(bytes: Buffer): void {
    if (this.#left.length > 0) {
      this.#left.push(Buffer.from(bytes));
      return;
    }
    const read = this.#slice(bytes);
    if (read === bytes.length) return;
    this.#left.push(Buffer.from(bytes.subarray(read)));
    this.#options.pause();
    this.#options.scheduler.enqueue(this);
  }

  /** Continues for one slice. False when unread bytes are left. */
  readOn(): boolean {
    const [first] = this.#left;
    if (first !== undefined) {
      const rest = first.subarray(this.#slice(first));
      // Reading may have closed the connection.
      if (rest.length > 0 && this.#left.length > 0) this.#left[0] = rest;
      else this.#left.shift();
      if (this.#left.length > 0) return false;
    }
    this.#options.resume();
    return true;
  }

  #slice(bytes: Buffer): number {
    const { scheduler, read } = this.#options;
    scheduler.begin();
    return read(bytes, scheduler.late);
  }

  /** The connection has closed: drops unread bytes. */
  close(): void {
    this.#left.length = 0;
    this.#options.scheduler.forget(this);
  }
}
