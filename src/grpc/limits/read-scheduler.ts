/**
 * How long connections may read before others get their turn. A read brings up to 256 KiB, in which a client can put
 * thousands of calls: taken to their end they would hold the event loop, and with it every other client, for a second.
 * So a connection reads for one slice of time; what is left over waits in memory, its socket is not read from
 * meanwhile, and it goes on in later turns of the event loop, in order of arrival with others that wait. Connections
 * that bring little never wait.
 */

/**
 * One connection at a time, ms. What proxies send when they connect, some hundred kB of names, takes less for each
 * read. Calls take as long again, or longer, when their handlers go on behind it.
 */
const SLICE_MS = 2;

/** A slice when many connections bring much within one turn of the event loop, ms … */
const SHORT_SLICE_MS = 0.5;
/** … which is when the turn has taken so long, ms. */
const BUSY_MS = 20;

/** What connections that wait get together in one turn of the event loop, ms. */
const ROUND_MS = 4;

export interface ReadSchedulerOptions {
  /** Monotonic ms. */
  readonly now: () => number;
  /** Runs something in the next turn of the event loop, behind its sockets; setImmediate when left out. */
  readonly later?: (run: () => void) => void;
}

/** The turns of all connections of a server. */
export class ReadScheduler {
  readonly #now: () => number;
  readonly #later: (run: () => void) => void;
  /** In order of their turns. */
  readonly #waiting = new Set<PacedReader>();
  /** Of this turn of the event loop, the first slice. */
  #turnBegun = 0;
  #until = 0;
  /** The end of this turn is waited for. */
  #scheduled = false;

  constructor({ now, later = setImmediate }: ReadSchedulerOptions) {
    this.#now = now;
    this.#later = later;
  }

  /** The slice is over. To be asked between the steps of reading. */
  readonly late = (): boolean => this.#now() >= this.#until;

  /** Begins a slice. */
  begin(): void {
    const now = this.#now();
    if (!this.#scheduled) this.#turnBegun = now;
    this.#until = now + (now - this.#turnBegun < BUSY_MS ? SLICE_MS : SHORT_SLICE_MS);
    this.#schedule();
  }

  /** Gives the reader a turn later, behind those that wait already. */
  enqueue(reader: PacedReader): void {
    this.#waiting.add(reader);
    this.#schedule();
  }

  /** The reader is over. */
  forget(reader: PacedReader): void {
    this.#waiting.delete(reader);
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#later(() => this.#round());
  }

  /** Behind the sockets of a turn of the event loop. */
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
  readonly turns: ReadScheduler;
  /** Reads until `late` says so; returns how many bytes were read. */
  readonly read: (bytes: Buffer, late: () => boolean) => number;
  /** Nothing more is to be read from the socket, or is again. */
  readonly pause: () => void;
  readonly resume: () => void;
}

/** What a connection brings, read in its turns. */
export class PacedReader {
  readonly #options: PacedReaderOptions;
  /** Copies of what came and was not read: what a read brings, and what was decrypted together with it. */
  readonly #left: Buffer[] = [];

  constructor(options: PacedReaderOptions) {
    this.#options = options;
  }

  /** Reads what has come, or a part of it now. The bytes are valid until the return. */
  take(bytes: Buffer): void {
    if (this.#left.length > 0) {
      this.#left.push(Buffer.from(bytes));
      return;
    }
    const read = this.#slice(bytes);
    if (read === bytes.length) return;
    this.#left.push(Buffer.from(bytes.subarray(read)));
    this.#options.pause();
    this.#options.turns.enqueue(this);
  }

  /** Reads on for one slice. False when there is still something left. */
  readOn(): boolean {
    const [first] = this.#left;
    if (first !== undefined) {
      const rest = first.subarray(this.#slice(first));
      // Reading may have ended the connection.
      if (rest.length > 0 && this.#left.length > 0) this.#left[0] = rest;
      else this.#left.shift();
      if (this.#left.length > 0) return false;
    }
    this.#options.resume();
    return true;
  }

  #slice(bytes: Buffer): number {
    const { turns, read } = this.#options;
    turns.begin();
    return read(bytes, turns.late);
  }

  /** The connection is over: what is left is given up. */
  close(): void {
    this.#left.length = 0;
    this.#options.turns.forget(this);
  }
}
