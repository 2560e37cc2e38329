/**
 * Limits the memory of incomplete requests. Known lists in a request take no memory; the rest is assembled, and its
 * sender decides how long that takes. Without a limit, thousands of incomplete requests of the maximum size, on an
 * address without authentication, would exhaust memory. So a request that needs much memory reserves all of it from a
 * quota shared by all streams. When the quota is used up, the request waits in its stream's flow-control window and is
 * granted its reservation in order of arrival; a slow request is refused only while others wait. Requests are not
 * refused because many arrive at once: thousands of proxies that reconnect with large requests, each with its names in
 * a different order, are read one after the other.
 */
import { networkOf, PerAddressLimiter } from '../../grpc/index.ts';

/** Bytes of a request that need no reservation: Node and metadata have 2-20 kB, an acknowledgement much less. */
export const FREE_BYTES = 64 * 1024;

/** The quota, in requests of the largest size: 64 MiB by default. */
const LARGEST_REQUESTS = 16;

/** Quota for data that streams read ahead before they are ready, bytes. */
const AHEAD_BYTES = 64 * 1024 * 1024;

/** The part of one stream. */
export const MAX_AHEAD_BYTES = 64 * 1024;

/** Time after which an incomplete request is refused while others wait, ms. Clients that send need about a second. */
const TIMEOUT_MS = 30_000;

/** Calls `run` once after `ms`; returns a function that cancels it. */
export type Later = (ms: number, run: () => void) => () => void;

export interface ReceiveMemoryQuotaOptions {
  /** Largest request, bytes. */
  readonly maxRequestBytes: number;
  readonly later?: Later;
}

/** The possible outcomes of a requested reservation. */
export interface QuotaEvents {
  /** Called when a waiting reservation is granted. */
  granted(): void;
  /** The request has taken too long while others wait. */
  timedOut(): void;
}

export interface Reservation {
  readonly granted: boolean;
  /** Called once, when the request is complete or aborted. */
  end(): void;
}

/** The quota for the streams of one client address. No address gets the whole quota. */
export interface PerClientQuota {
  /** Reserves memory for a request of this size. */
  reserve(bytes: number, events: QuotaEvents): Reservation;
  /**
   * Reserves {@link MAX_AHEAD_BYTES} for the data that a stream reads ahead.
   * @returns releases the reservation; undefined when it is refused
   */
  reserveAhead(): (() => void) | undefined;
}

/** Bytes that arrived while the process was busy are read before the timeout is checked. */
function realLater(ms: number, run: () => void): () => void {
  const timer = setTimeout(() => setImmediate(run), ms).unref();
  return () => clearTimeout(timer);
}

/** A reservation that waits, or was granted. */
interface Entry {
  readonly bytes: number;
  readonly events: QuotaEvents;
  /** Returns the memory; undefined while it waits. */
  release: (() => void) | undefined;
  /** Cancels the timeout. */
  cancel: () => void;
}

export class ReceiveMemoryQuota {
  readonly #requests: PerAddressLimiter;
  readonly #ahead = new PerAddressLimiter(AHEAD_BYTES / MAX_AHEAD_BYTES);
  readonly #later: Later;
  /**
   * By address, in order of arrival; no set is empty. Sets, because thousands may wait and end at once with their
   * connection.
   */
  readonly #waiting = new Map<string, Set<Entry>>();
  #scheduled = false;

  constructor({ maxRequestBytes, later = realLater }: ReceiveMemoryQuotaOptions) {
    this.#requests = new PerAddressLimiter(LARGEST_REQUESTS * maxRequestBytes);
    this.#later = later;
  }

  of(remoteAddress: string): PerClientQuota {
    const address = networkOf(remoteAddress);
    return {
      reserve: (bytes, events) => this.#reserve(address, { bytes, events, release: undefined, cancel: () => {} }),
      reserveAhead: () => this.#ahead.enter(address),
    };
  }

  #reserve(address: string, entry: Entry): Reservation {
    const waiting = this.#waiting.get(address);
    if (waiting !== undefined) waiting.add(entry);
    else if (!this.#grant(address, entry)) this.#waiting.set(address, new Set([entry]));
    return {
      get granted() {
        return entry.release !== undefined;
      },
      end: () => this.#end(address, entry),
    };
  }

  #grant(address: string, entry: Entry): boolean {
    entry.release = this.#requests.enter(address, entry.bytes);
    if (entry.release !== undefined) this.#startTimeout(entry);
    return entry.release !== undefined;
  }

  #startTimeout(entry: Entry): void {
    entry.cancel = this.#later(TIMEOUT_MS, () => {
      if (entry.release === undefined) return;
      if (this.#waiting.size > 0) entry.events.timedOut();
      else this.#startTimeout(entry);
    });
  }

  #end(address: string, entry: Entry): void {
    const { release } = entry;
    entry.cancel();
    entry.release = undefined;
    if (release === undefined) this.#stopWaiting(address, entry);
    release?.();
    this.#schedule();
  }

  #stopWaiting(address: string, entry: Entry): void {
    const waiting = this.#waiting.get(address);
    waiting?.delete(entry);
    if (waiting?.size === 0) this.#waiting.delete(address);
  }

  /** Grants memory that has become free, once for all reservations that end in the same turn of the event loop. */
  #schedule(): void {
    if (this.#scheduled || this.#waiting.size === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      for (const address of [...this.#waiting.keys()]) this.#grantWaiting(address);
    });
  }

  #grantWaiting(address: string): void {
    for (;;) {
      // A granted request may end at once, and the next one reserve more.
      const [first] = this.#waiting.get(address) ?? [];
      if (first === undefined || !this.#grant(address, first)) return;
      this.#stopWaiting(address, first);
      first.events.granted();
    }
  }
}
