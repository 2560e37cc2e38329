/**
 * Limits the TLS handshakes that are under way. Thousands of clients that connect at once would otherwise all begin,
 * and with a client or server that is busy all would take longer than their time limit; so would the next attempts.
 * Callers wait in the order of the time that they have used, and some slots are always left for other callers.
 */
import { TimeFairQueue } from '../../core/fairness/time-fair-queue.ts';
import type { TimeShares } from '../../core/fairness/time-shares.ts';
import { PerAddressLimiter } from '../limits/per-address-limiter.ts';

/** Handshakes under way: with clients 200 ms away still as many per second as a core can do. */
const MAX_UNDER_WAY = 128;

/** A slot is for our work, not for a client's slowness: after this time, ms, the next handshake begins. */
const SLOT_MS = 2000;

export interface Handshake {
  /** The network of the client's address. */
  readonly caller: string;
  /** To be followed by {@link HandshakeSlots.leave}. */
  begin(): void;
}

export interface HandshakeSlotsOptions {
  readonly shares: TimeShares | undefined;
  readonly maxUnderWay?: number;
  readonly slotMs?: number;
}

/** A slot in use. */
interface Slot {
  readonly timer: NodeJS.Timeout;
  readonly release: () => void;
}

export class HandshakeSlots {
  readonly #limiter: PerAddressLimiter;
  readonly #max: number;
  readonly #slotMs: number;
  /** Handshakes of callers that may have a slot when one is free. */
  readonly #waiting: TimeFairQueue<Handshake>;
  /** Of callers that have as many slots as they may have now, in order. They have some, so there are few of them. */
  readonly #blocked = new Map<string, Set<Handshake>>();
  readonly #slots = new Map<Handshake, Slot>();

  constructor({ shares, maxUnderWay = MAX_UNDER_WAY, slotMs = SLOT_MS }: HandshakeSlotsOptions) {
    this.#limiter = new PerAddressLimiter(maxUnderWay);
    this.#max = maxUnderWay;
    this.#slotMs = slotMs;
    this.#waiting = new TimeFairQueue(shares);
  }

  /** Handshakes that hold a slot. */
  get underWay(): number {
    return this.#slots.size;
  }

  enter(handshake: Handshake): void {
    if (this.#blocked.has(handshake.caller)) this.#block(handshake);
    else {
      this.#waiting.add(handshake.caller, handshake);
      this.#next();
    }
  }

  /** The handshake has ended or was given up. Further calls have no effect. */
  leave(handshake: Handshake): void {
    const { caller } = handshake;
    this.#waiting.remove(caller, handshake);
    this.#unblock(handshake);
    const slot = this.#slots.get(handshake);
    if (slot === undefined) return;
    clearTimeout(slot.timer);
    this.#slots.delete(handshake);
    slot.release();
    this.#next();
    for (const blocked of [...this.#blocked.values()]) this.#continue(blocked);
  }

  #next(): void {
    while (this.#slots.size < this.#max) {
      const next = this.#waiting.next();
      if (next === undefined) return;
      if (!this.#begin(next)) this.#block(next);
    }
  }

  /** A caller may have slots again. */
  #continue(blocked: ReadonlySet<Handshake>): void {
    for (const handshake of blocked) if (!this.#begin(handshake)) return;
  }

  /** False when its caller has as many slots as it may have now. */
  #begin(handshake: Handshake): boolean {
    const release = this.#limiter.enter(handshake.caller);
    if (release === undefined) return false;
    this.#unblock(handshake);
    const timer = setTimeout(() => this.leave(handshake), this.#slotMs).unref();
    this.#slots.set(handshake, { timer, release });
    handshake.begin();
    return true;
  }

  #block(handshake: Handshake): void {
    const blocked = this.#blocked.get(handshake.caller) ?? new Set();
    this.#blocked.set(handshake.caller, blocked.add(handshake));
  }

  #unblock(handshake: Handshake): void {
    const blocked = this.#blocked.get(handshake.caller);
    if (blocked?.delete(handshake) === true && blocked.size === 0) this.#blocked.delete(handshake.caller);
  }
}
