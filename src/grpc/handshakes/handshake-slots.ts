/**
 * Limits the number of concurrent TLS handshakes. If thousands of clients connected at once, all handshakes would
 * otherwise exceed their time limit on a busy server, and so would the next attempts. Callers wait in the order of the
 * time that they have used, and some slots are always reserved for other callers.
 *
 * A slot is for the work of the server, not for waiting for a slow client. If the handshake waits for its client while
 * another caller waits for a slot, or after some time, the slot ends and the handshake continues without it. Callers
 * are charged for the time of their slots.
 */
import { TimeFairQueue } from '../../core/fairness/time-fair-queue.ts';
import { TimeShares } from '../../core/fairness/time-shares.ts';
import { PerAddressLimiter } from '../limits/per-address-limiter.ts';

/** Maximum number of concurrent handshakes. With a round-trip time of 200 ms, this still uses a whole core. */
const MAX_UNDER_WAY = 128;

/** After this time, ms, a slot ends. */
const SLOT_MS = 2000;

/** While other callers wait, a slot ends if its handshake has waited for the client for longer than this, ms. */
const CONTESTED_SLOT_MS = 100;

/** Interval of the search for such slots, ms. */
const LOOK_MS = 50;

/** Maximum number of slots that end at each search: unresponsive clients cause at most a quarter of a core's load. */
const ENDED_PER_LOOK = 8;

export interface Handshake {
  /** The network of the client's address. */
  readonly caller: string;
  /** To be followed by {@link HandshakeSlots.leave}. */
  begin(): void;
}

export interface HandshakeSlotsOptions {
  readonly shares: TimeShares | undefined;
  /** Monotonic ms. */
  readonly now: () => number;
  readonly maxUnderWay?: number;
  readonly slotMs?: number;
}

/** A slot in use. */
interface Slot {
  readonly timer: NodeJS.Timeout;
  readonly release: () => void;
  /** When the wait for the client began, monotonic ms; undefined before the work of the server. */
  since: number | undefined;
}

export class HandshakeSlots {
  readonly #limiter: PerAddressLimiter;
  readonly #shares: TimeShares;
  readonly #now: () => number;
  readonly #max: number;
  readonly #slotMs: number;
  /** Callers that currently have their maximum number of slots are skipped. They are few, because each has slots. */
  readonly #waiting: TimeFairQueue<Handshake>;
  /** In the order in which they were given. */
  readonly #slots = new Map<Handshake, Slot>();
  /** Whether a search for slots is scheduled. */
  #looking = false;

  constructor({ shares, now, maxUnderWay = MAX_UNDER_WAY, slotMs = SLOT_MS }: HandshakeSlotsOptions) {
    this.#limiter = new PerAddressLimiter(maxUnderWay);
    this.#shares = shares ?? new TimeShares();
    this.#now = now;
    this.#max = maxUnderWay;
    this.#slotMs = slotMs;
    this.#waiting = new TimeFairQueue(this.#shares);
  }

  /** Handshakes that hold a slot. */
  get underWay(): number {
    return this.#slots.size;
  }

  enter(handshake: Handshake): void {
    this.#waiting.add(handshake.caller, handshake);
    this.#next();
  }

  /** The server's first work for a handshake is done: the handshake now waits for its client. */
  awaitClient(handshake: Handshake): void {
    const slot = this.#slots.get(handshake);
    if (slot !== undefined) slot.since = this.#now();
  }

  /** The handshake has ended or was aborted. Further calls have no effect. */
  leave(handshake: Handshake): void {
    this.#waiting.remove(handshake.caller, handshake);
    const slot = this.#slots.get(handshake);
    if (slot === undefined) return;
    clearTimeout(slot.timer);
    this.#slots.delete(handshake);
    slot.release();
    // All slots together correspond to the time of the thread.
    if (slot.since !== undefined) this.#shares.charge(handshake.caller, (this.#now() - slot.since) / this.#max);
    this.#waiting.retry();
    this.#next();
  }

  #next(): void {
    while (this.#slots.size < this.#max) {
      const handshake = this.#waiting.next(({ caller }) => this.#limiter.admits(caller));
      const release = handshake && this.#limiter.enter(handshake.caller);
      if (handshake === undefined || release === undefined) break;
      const timer = setTimeout(() => this.leave(handshake), this.#slotMs).unref();
      this.#slots.set(handshake, { timer, release, since: undefined });
      handshake.begin();
    }
    if (this.#waiting.size > 0) this.#lookLater();
  }

  #lookLater(): void {
    if (this.#looking) return;
    this.#looking = true;
    setTimeout(() => {
      // First, data that clients sent while the process was busy is read.
      setImmediate(() => {
        this.#looking = false;
        this.#endContested();
        if (this.#waiting.size > 0) this.#lookLater();
      });
    }, LOOK_MS).unref();
  }

  /** Ends the oldest slots that wait for their clients while another caller waits. */
  #endContested(): void {
    const until = this.#now() - CONTESTED_SLOT_MS;
    let ended = 0;
    for (const [handshake, { since }] of [...this.#slots]) {
      if (ended === ENDED_PER_LOOK) return;
      const others = this.#waiting.size - this.#waiting.sizeOf(handshake.caller);
      if (others === 0 || since === undefined || since > until) continue;
      this.leave(handshake);
      ended++;
    }
  }
}
