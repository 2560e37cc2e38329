/**
 * Limits the TLS handshakes that are under way. Thousands of clients that connect at once would otherwise all begin,
 * and with a client or server that is busy all would take longer than their time limit; so would the next attempts.
 * Callers wait in the order of the time that they have used, and some slots are always left for other callers.
 *
 * A slot is for our work, not for a client's slowness. It ends when its client is waited for and another caller waits,
 * or else after some time; the handshake goes on without it. Callers are charged for the time of their slots.
 */
import { TimeFairQueue } from '../../core/fairness/time-fair-queue.ts';
import { TimeShares } from '../../core/fairness/time-shares.ts';
import { PerAddressLimiter } from '../limits/per-address-limiter.ts';

/** Handshakes under way: with clients 200 ms away still as many per second as a core can do. */
const MAX_UNDER_WAY = 128;

/** After this time, ms, a slot ends. */
const SLOT_MS = 2000;

/** While other callers wait, a slot ends whose client was waited for longer than this, ms. */
const CONTESTED_SLOT_MS = 100;

/** How often such slots are looked for, ms. */
const LOOK_MS = 50;

/** Most slots that end then: clients that do not go on cause handshakes for a quarter of a core's time at most. */
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
  /** Since when its client is waited for, monotonic ms; undefined: our work has not begun. */
  since: number | undefined;
}

export class HandshakeSlots {
  readonly #limiter: PerAddressLimiter;
  readonly #shares: TimeShares;
  readonly #now: () => number;
  readonly #max: number;
  readonly #slotMs: number;
  /** Callers that have as many slots as they may have now are passed over. They have some, so there are few of them. */
  readonly #waiting: TimeFairQueue<Handshake>;
  /** In the order in which they were given. */
  readonly #slots = new Map<Handshake, Slot>();
  /** Slots are about to be looked through. */
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

  /** Our first work for a handshake that has begun is done: its client is waited for. */
  awaitClient(handshake: Handshake): void {
    const slot = this.#slots.get(handshake);
    if (slot !== undefined) slot.since = this.#now();
  }

  /** The handshake has ended or was given up. Further calls have no effect. */
  leave(handshake: Handshake): void {
    this.#waiting.remove(handshake.caller, handshake);
    const slot = this.#slots.get(handshake);
    if (slot === undefined) return;
    clearTimeout(slot.timer);
    this.#slots.delete(handshake);
    slot.release();
    // All slots together are worth the time of the thread.
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
      // What clients sent while the process was busy is read first.
      setImmediate(() => {
        this.#looking = false;
        this.#endContested();
        if (this.#waiting.size > 0) this.#lookLater();
      });
    }, LOOK_MS).unref();
  }

  /** Ends the oldest of the slots whose clients keep another caller waiting. */
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
