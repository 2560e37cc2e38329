/**
 * Limits the TLS handshakes that are under way. Thousands of clients that connect at once would otherwise all begin,
 * and with a client or server that is busy all would take longer than their time limit; so would the next attempts.
 * Callers wait in the order of the time that they have used.
 */
import { TimeFairQueue } from '../../core/time-fair-queue.ts';
import type { TimeShares } from '../../core/time-shares.ts';

/** Handshakes under way: with clients 200 ms away still as many per second as a core can do. */
const MAX_UNDER_WAY = 128;

/** A slot is for our work, not for a client's slowness: after this time, ms, the next handshake begins. */
const SLOT_MS = 2000;

export interface Handshake {
  readonly caller: string;
  /** To be followed by {@link HandshakeSlots.leave}. */
  begin(): void;
}

export interface HandshakeSlotsOptions {
  readonly shares: TimeShares | undefined;
  readonly maxUnderWay?: number;
  readonly slotMs?: number;
}

export class HandshakeSlots {
  readonly #waiting: TimeFairQueue<Handshake>;
  readonly #held = new Map<Handshake, NodeJS.Timeout>();
  readonly #max: number;
  readonly #slotMs: number;

  constructor({ shares, maxUnderWay = MAX_UNDER_WAY, slotMs = SLOT_MS }: HandshakeSlotsOptions) {
    this.#waiting = new TimeFairQueue(shares);
    this.#max = maxUnderWay;
    this.#slotMs = slotMs;
  }

  /** Handshakes that hold a slot. */
  get underWay(): number {
    return this.#held.size;
  }

  enter(handshake: Handshake): void {
    this.#waiting.add(handshake.caller, handshake);
    this.#next();
  }

  /** The handshake has ended or was given up. Further calls have no effect. */
  leave(handshake: Handshake): void {
    this.#waiting.remove(handshake.caller, handshake);
    clearTimeout(this.#held.get(handshake));
    if (this.#held.delete(handshake)) this.#next();
  }

  #next(): void {
    while (this.#held.size < this.#max) {
      const next = this.#waiting.next();
      if (next === undefined) return;
      this.#held.set(next, setTimeout(() => this.leave(next), this.#slotMs).unref());
      next.begin();
    }
  }
}
