/**
 * Counts the memory of responses that have been written and have not left for their sockets, by caller. Most leave in
 * the same turn of the event loop. What is left belongs to clients that read slowly or not at all, which the server
 * disconnects only after a timeout. So a caller may not have more waiting than is free: a single one gets half of the
 * capacity, two get a third each, and another one still finds some (see src/core/fair-queue.ts). Its streams are then
 * served when something has left. A caller may always have one response waiting, however large.
 */

/** Memory of the responses of all callers, bytes: that of 128 slices over TLS and their copies. */
const CAPACITY_BYTES = 16 * 1024 * 1024;

/** Larger chunks are shared by many streams: each counts once. */
const SHARED_FROM_BYTES = 64 * 1024;

/** What the waiting write of a stream takes besides its bytes. */
const WRITE_BYTES = 512;

/** Most streams of one caller that are continued in a turn of the event loop. */
const CONTINUED_PER_TURN = 64;

interface Holders {
  readonly bytes: number;
  /** Numbers of writes by caller. The first caller is charged. */
  readonly writes: Map<CallerBytes, number>;
}

export interface UnsentOptions {
  readonly capacityBytes?: number;
  /** Calls `run` in the next turn of the event loop. */
  readonly nextTurn?: (run: () => void) => void;
}

export class UnsentBytes {
  readonly #capacity: number;
  readonly #nextTurn: (run: () => void) => void;
  readonly #callers = new Map<string, CallerBytes>();
  readonly #shared = new Map<Uint8Array, Holders>();
  readonly #waiting = new Set<CallerBytes>();
  #total = 0;
  #planned = false;

  constructor({ capacityBytes = CAPACITY_BYTES, nextTurn = setImmediate }: UnsentOptions = {}) {
    this.#capacity = capacityBytes;
    this.#nextTurn = nextTurn;
  }

  /** Bytes of all callers. */
  get total(): number {
    return this.#total;
  }

  /** A stream of the caller begins; to be followed by one `leave()`. */
  enter(caller: string): CallerBytes {
    let known = this.#callers.get(caller);
    if (known === undefined) {
      known = new CallerBytes(this, caller);
      this.#callers.set(caller, known);
    }
    known.streams++;
    return known;
  }

  leave(of: CallerBytes): void {
    if (--of.streams === 0 && of.bytes === 0) this.#callers.delete(of.caller);
  }

  admits(of: CallerBytes): boolean {
    return of.bytes === 0 || of.bytes <= this.#capacity - this.#total;
  }

  /**
   * A write begins.
   * @param copied bytes that are copied for this write alone, such as an encrypted slice
   * @returns ends it, when its bytes have left or were given up
   */
  add(of: CallerBytes, chunks: readonly Uint8Array[], copied: number): () => void {
    let own = WRITE_BYTES + copied;
    let shared: Uint8Array[] | undefined;
    for (const chunk of chunks) {
      if (chunk.length < SHARED_FROM_BYTES) own += chunk.length;
      else {
        this.#hold(of, chunk);
        shared ??= [];
        shared.push(chunk);
      }
    }
    this.#charge(of, own);
    return () => {
      this.#charge(of, -own);
      for (const chunk of shared ?? []) this.#release(of, chunk);
      if (of.streams === 0 && of.bytes === 0) this.#callers.delete(of.caller);
      this.#continue();
    };
  }

  #charge(of: CallerBytes, bytes: number): void {
    of.bytes += bytes;
    this.#total += bytes;
  }

  #hold(of: CallerBytes, chunk: Uint8Array): void {
    let holders = this.#shared.get(chunk);
    if (holders === undefined) {
      holders = { bytes: chunk.length, writes: new Map() };
      this.#shared.set(chunk, holders);
      this.#charge(of, chunk.length);
    }
    holders.writes.set(of, (holders.writes.get(of) ?? 0) + 1);
  }

  /** When the caller that is charged has no write of the chunk any more, another one with such a write is charged. */
  #release(of: CallerBytes, chunk: Uint8Array): void {
    const holders = this.#shared.get(chunk);
    if (holders === undefined) return;
    const { bytes, writes } = holders;
    const left = (writes.get(of) ?? 0) - 1;
    if (left > 0) {
      writes.set(of, left);
      return;
    }
    const [charged] = writes.keys();
    writes.delete(of);
    const [next] = writes.keys();
    if (next === undefined) this.#shared.delete(chunk);
    if (charged !== of) return;
    this.#charge(of, -bytes);
    if (next !== undefined) this.#charge(next, bytes);
  }

  /** A stream of the caller waits. */
  waits(of: CallerBytes): void {
    this.#waiting.add(of);
    this.#continue();
  }

  #continue(): void {
    if (this.#planned || this.#waiting.size === 0) return;
    this.#planned = true;
    this.#nextTurn(() => {
      this.#planned = false;
      for (const of of [...this.#waiting]) if (!of.continue()) this.#waiting.delete(of);
      for (const of of this.#waiting) if (of.mayWrite) this.#continue();
    });
  }
}

/** The responses of one caller that have not left. */
export class CallerBytes {
  readonly caller: string;
  readonly #all: UnsentBytes;
  bytes = 0;
  /** Number of open streams. */
  streams = 0;
  /** Streams that wait, in order. */
  readonly #waiting = new Set<() => void>();

  constructor(all: UnsentBytes, caller: string) {
    this.#all = all;
    this.caller = caller;
  }

  /** False when a new response has to wait until others have left. */
  get mayWrite(): boolean {
    return this.#all.admits(this);
  }

  add(chunks: readonly Uint8Array[], copied: number): () => void {
    return this.#all.add(this, chunks, copied);
  }

  /** Calls `run` once when {@link mayWrite} has become true; it may be false again by then. */
  wait(run: () => void): void {
    this.#waiting.add(run);
    this.#all.waits(this);
  }

  /** The stream has ended. */
  leave(run: () => void): void {
    this.#waiting.delete(run);
    this.#all.leave(this);
  }

  /** Continues some streams; false when none waits any more. */
  continue(): boolean {
    let count = 0;
    for (const run of this.#waiting) {
      if (count++ >= CONTINUED_PER_TURN || !this.mayWrite) break;
      this.#waiting.delete(run);
      run();
    }
    return this.#waiting.size > 0;
  }
}
