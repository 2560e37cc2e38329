/**
 * Room in memory for requests that are on their way. What is recognised of a request while it arrives takes none; the
 * rest of it is put together, and whoever sends it decides how long that takes: thousands of halves of the largest
 * request, on an address where nobody is asked who he is, would be all memory that there is. So a request of which much
 * has to be kept needs room for all of it, out of so much for all streams. Where there is none it waits in the stream's
 * flow-control window until its turn comes, for whoever is let in goes on to the end, and is not waited for longer than
 * is put up with while others wait. No request is refused because many come at once: thousands of proxies that come
 * back with large requests, each in an order of its own, are read one after the other.
 */
import { networkOf, PerAddressLimiter } from '../../grpc/index.ts';

/**
 * So much of a request, bytes, is kept without asking: Node and metadata have 2-20 kB, an acknowledgement much less.
 */
export const FREE_BYTES = 64 * 1024;

/** Room for requests, in largest ones: 64 MiB by default. */
const LARGEST_REQUESTS = 16;

/** What streams that are not let in yet may be read ahead in all, bytes. */
const AHEAD_BYTES = 64 * 1024 * 1024;

/** Of one of them. */
export const MAX_AHEAD_BYTES = 64 * 1024;

/**
 * A request that has room and is not complete after this long, ms, is given up when others wait: those who send at all
 * are done in a second.
 */
const PATIENCE_MS = 30_000;

/** Runs once after `ms`; returns how to have it not run. */
export type Later = (ms: number, run: () => void) => () => void;

export interface ReceiveMemoryQuotaOptions {
  /** Largest request, bytes. */
  readonly maxRequestBytes: number;
  readonly later?: Later;
}

/** What becomes of a request that asks for room. */
export interface QuotaEvents {
  /** It had to wait, and has room now. */
  granted(): void;
  /** It takes too long for those who wait. */
  late(): void;
}

export interface Claim {
  /** There is room for the request. */
  readonly granted: boolean;
  /** The request is complete, or given up. To be called once. */
  end(): void;
}

/** Room for the streams of one client address, of which no single one gets all. */
export interface PerClientQuota {
  /** Asks for room for a request of so many bytes. */
  request(bytes: number, events: QuotaEvents): Claim;
  /**
   * Asks for room for what a stream is read ahead ({@link MAX_AHEAD_BYTES}).
   * @returns what to call when that is over; undefined when there is none
   */
  ahead(): (() => void) | undefined;
}

/** What has come while this process was busy is read first. */
function realLater(ms: number, run: () => void): () => void {
  const timer = setTimeout(() => setImmediate(run), ms).unref();
  return () => clearTimeout(timer);
}

/** A request that waits for room, or has it. */
interface Asked {
  readonly bytes: number;
  readonly events: QuotaEvents;
  /** Gives back the room that it has. */
  leave: (() => void) | undefined;
  /** Stops waiting for it to be complete. */
  cancel: () => void;
}

export class ReceiveMemoryQuota {
  readonly #requests: PerAddressLimiter;
  readonly #ahead = new PerAddressLimiter(AHEAD_BYTES / MAX_AHEAD_BYTES);
  readonly #later: Later;
  /**
   * By address, those who came first first; none of them is empty. Thousands may wait, and end all at once with their
   * connection.
   */
  readonly #waiting = new Map<string, Set<Asked>>();
  #scheduled = false;

  constructor({ maxRequestBytes, later = realLater }: ReceiveMemoryQuotaOptions) {
    this.#requests = new PerAddressLimiter(LARGEST_REQUESTS * maxRequestBytes);
    this.#later = later;
  }

  of(remoteAddress: string): PerClientQuota {
    const address = networkOf(remoteAddress);
    return {
      request: (bytes, events) => this.#ask(address, { bytes, events, leave: undefined, cancel: () => {} }),
      ahead: () => this.#ahead.enter(address),
    };
  }

  #ask(address: string, asked: Asked): Claim {
    const before = this.#waiting.get(address);
    if (before !== undefined) before.add(asked);
    else if (!this.#admit(address, asked)) this.#waiting.set(address, new Set([asked]));
    return {
      get granted() {
        return asked.leave !== undefined;
      },
      end: () => this.#end(address, asked),
    };
  }

  #admit(address: string, asked: Asked): boolean {
    asked.leave = this.#requests.enter(address, asked.bytes);
    if (asked.leave !== undefined) this.#watch(asked);
    return asked.leave !== undefined;
  }

  #watch(asked: Asked): void {
    asked.cancel = this.#later(PATIENCE_MS, () => {
      if (asked.leave === undefined) return;
      if (this.#waiting.size > 0) asked.events.late();
      else this.#watch(asked);
    });
  }

  #end(address: string, asked: Asked): void {
    const { leave } = asked;
    asked.cancel();
    asked.leave = undefined;
    if (leave === undefined) this.#forget(address, asked);
    leave?.();
    this.#schedule();
  }

  #forget(address: string, asked: Asked): void {
    const waiting = this.#waiting.get(address);
    waiting?.delete(asked);
    if (waiting?.size === 0) this.#waiting.delete(address);
  }

  /** Once for all that end in the same turn of the event loop. */
  #schedule(): void {
    if (this.#scheduled || this.#waiting.size === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      for (const address of [...this.#waiting.keys()]) this.#goOn(address);
    });
  }

  #goOn(address: string): void {
    for (;;) {
      // What is told of room may end, and ask for more.
      const [first] = this.#waiting.get(address) ?? [];
      if (first === undefined || !this.#admit(address, first)) return;
      this.#forget(address, first);
      first.events.granted();
    }
  }
}
