/**
 * Counts the memory of responses that were written and not yet handed to their sockets, by caller. Most are handed over
 * in the same turn of the event loop. The rest belongs to clients that read slowly or not at all, which the server
 * disconnects only after a timeout. So the bytes that a caller has waiting may not exceed the free capacity: a single
 * caller gets half of the capacity, two get a third each, and there is always some left for others (see
 * src/core/fairness/fair-queue.ts). At that limit its streams wait until bytes were sent. A caller may always have one
 * response waiting, however large.
 *
 * When the capacity is used up, for example while thousands of callers connect, all callers wait until bytes are sent:
 * those that have used the least time are served first, and within a caller usually the streams that were already sent
 * a part of their configuration. If few bytes are sent, clients that do not read have exhausted the capacity: some
 * callers without waiting responses are then served anyway.
 */
import { Lane } from '../../../core/fairness/lane.ts';
import { TimeFairQueue } from '../../../core/fairness/time-fair-queue.ts';
import type { TimeShares } from '../../../core/fairness/time-shares.ts';

/** Memory of the responses of all callers, bytes: that of 256 slices over TLS and their copies. */
const CAPACITY_BYTES = 16 * 1024 * 1024;

/** Larger chunks are shared by many streams: each counts once. */
const SHARED_FROM_BYTES = 64 * 1024;

/** Memory of a stream's waiting write in addition to its bytes. */
const WRITE_BYTES = 512;

/**
 * Maximum memory of a response in addition to shared bytes. In a turn, as many streams are continued as the capacity
 * allows.
 */
const RESPONSE_BYTES = 128 * 1024;

/** Maximum number of streams that are continued in a turn of the event loop. */
const CONTINUED_PER_TURN = 64;

/** While the capacity is used up, how soon some bytes must be sent, ms. */
const STALLED_MS = 50;

/** The part of the capacity that must be sent in this time: a client that reads a little is slow as well. */
const STALLED_SHARE = 1 / 16;

/** Callers that are served when too few bytes were sent. */
const SERVED_ANYWAY = 16;

interface Holders {
  readonly bytes: number;
  /** Numbers of writes by caller. The first caller is charged. */
  readonly writes: Map<CallerBytes, number>;
}

export interface UnsentOptions {
  readonly capacityBytes?: number;
  /** Calls `run` in the next turn of the event loop. */
  readonly nextTurn?: (run: () => void) => void;
  /** Calls `run` after some ms, unless the program ends before. */
  readonly after?: (ms: number, run: () => void) => void;
  /** The time that callers have used, by other work of the thread as well. */
  readonly shares?: TimeShares | undefined;
}

export class UnsentBytes {
  readonly #capacity: number;
  readonly #nextTurn: (run: () => void) => void;
  readonly #callers = new Map<string, CallerBytes>();
  readonly #shared = new Map<Uint8Array, Holders>();
  readonly #after: (ms: number, run: () => void) => void;
  /** Callers with streams that wait. */
  readonly #waiting: TimeFairQueue<CallerBytes>;
  #total = 0;
  /** Bytes sent since the last check for progress. */
  #leftBytes = 0;
  #planned = false;
  #watched = false;

  constructor(options: UnsentOptions = {}) {
    const { capacityBytes = CAPACITY_BYTES, nextTurn = setImmediate, after = later, shares } = options;
    this.#capacity = capacityBytes;
    this.#nextTurn = nextTurn;
    this.#after = after;
    this.#waiting = new TimeFairQueue(shares);
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
    if (!of.waits) this.#waiting.remove(of.caller, of);
    if (--of.streams === 0 && of.bytes === 0) this.#callers.delete(of.caller);
  }

  admits(of: CallerBytes): boolean {
    if (of.bytes === 0) return of.servedAnyway || this.#isFree;
    return of.bytes <= this.#capacity - this.#total;
  }

  get #isFree(): boolean {
    return this.#total < this.#capacity;
  }

  /**
   * A write begins.
   * @param copied bytes that are copied for this write alone, such as an encrypted slice
   * @returns a function to call once its bytes were sent or discarded
   */
  add(of: CallerBytes, chunks: readonly Uint8Array[], copied: number): () => void {
    of.servedAnyway = false;
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
    if (bytes < 0) this.#leftBytes -= bytes;
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

  /** When the charged caller has no more writes of the chunk, another caller with such a write is charged. */
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
    this.#waiting.add(of.caller, of);
    this.#continue();
  }

  #continue(): void {
    if (this.#waiting.size === 0) return;
    if (!this.#isFree) this.#watch();
    else if (!this.#planned) {
      this.#planned = true;
      this.#nextTurn(() => {
        this.#planned = false;
        this.#round();
      });
    }
  }

  /** Continues streams of callers that may write, in turn: as many as the capacity allows. */
  #round(): void {
    const room = Math.min(Math.ceil((this.#capacity - this.#total) / RESPONSE_BYTES), CONTINUED_PER_TURN);
    this.#waiting.retry();
    for (let count = 0; count < room && this.#isFree; count++) {
      const of = this.#waiting.next((each) => each.mayWrite);
      // The others are continued when some bytes were sent.
      if (of === undefined) return;
      this.#serve(of);
    }
    this.#continue();
  }

  /** Continues one stream of the caller. */
  #serve(of: CallerBytes): void {
    of.continue();
    if (of.waits) this.#waiting.add(of.caller, of);
  }

  /** Checks that enough bytes are sent while the capacity is used up. */
  #watch(): void {
    if (this.#watched) return;
    this.#watched = true;
    this.#leftBytes = 0;
    this.#after(STALLED_MS, () => {
      this.#watched = false;
      if (!this.#isFree && this.#leftBytes < this.#capacity * STALLED_SHARE) this.#serveAnyway();
      this.#continue();
    });
  }

  #serveAnyway(): void {
    this.#waiting.retry();
    for (let count = 0; count < SERVED_ANYWAY; count++) {
      const of = this.#waiting.next(({ bytes }) => bytes === 0);
      if (of === undefined) break;
      of.servedAnyway = true;
      this.#serve(of);
    }
    this.#waiting.retry();
  }
}

function later(ms: number, run: () => void): void {
  setTimeout(run, ms).unref();
}

/** The responses of one caller that were not sent yet. */
export class CallerBytes {
  readonly caller: string;
  readonly #all: UnsentBytes;
  bytes = 0;
  /** Number of open streams. */
  streams = 0;
  /** Its next response is written although everything is used up. */
  servedAnyway = false;
  readonly #waiting = new Lane<() => void>();

  constructor(all: UnsentBytes, caller: string) {
    this.#all = all;
    this.caller = caller;
  }

  /** False when a new response has to wait until others were sent. */
  get mayWrite(): boolean {
    return this.#all.admits(this);
  }

  /** Some of its streams wait. */
  get waits(): boolean {
    return this.#waiting.size > 0;
  }

  add(chunks: readonly Uint8Array[], copied: number): () => void {
    return this.#all.add(this, chunks, copied);
  }

  /**
   * Calls `run` once when {@link mayWrite} has become true; it may be false again by then.
   * @param begun the stream was sent a part of its configuration; it is continued before most others of the caller
   */
  wait(run: () => void, begun: boolean): void {
    this.#waiting.add(run, begun);
    this.#all.waits(this);
  }

  /** The stream has ended. */
  leave(run: () => void): void {
    this.#waiting.delete(run);
    this.#all.leave(this);
  }

  /** Continues the next stream that waits. */
  continue(): void {
    this.#waiting.take()?.();
  }
}
