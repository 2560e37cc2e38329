/**
 * The push queue: at most one merged pending push per session, first come first served, and at most `throttle` pushes
 * in flight (CTL_PUSH_THROTTLE). A push is in flight until its bytes have drained to the socket, so that buffered bytes
 * are bounded by the throttle and not by the number of proxies.
 *
 * A session that gets new work during its push goes to the end of the queue when the push ends, so no session delays
 * others. A push that ends at once, as a small one does, allocates no promise: a changed endpoint is a thousand of
 * them.
 */
import type { XdsType } from '../../core/xds-types.ts';
import type { PendingPush, PushOutcome, PushReason } from '../types.ts';

/** What the queue reports; times in milliseconds. */
export interface QueueObserver {
  /** A session left the queue after waiting this long. */
  waited(milliseconds: number): void;
}

interface Merged {
  /** Never modified: a change for a thousand sessions shares one set. */
  types: ReadonlySet<XdsType>;
  version: number;
  eventTime: number;
  reasons: ReadonlySet<PushReason>;
  readonly enqueuedAt: number;
}

export interface PushQueueOptions<S> {
  readonly throttle: number;
  readonly now: () => number;
  readonly push: (session: S, pending: PendingPush) => PushOutcome | Promise<PushOutcome>;
  readonly observer: QueueObserver;
}

export class PushQueue<S extends object> {
  readonly #options: PushQueueOptions<S>;
  /** Insertion order of a Map is the order of the queue. */
  readonly #waiting = new Map<S, Merged>();
  readonly #underWay = new Set<S>();
  /** Work that arrived for a session during its push. */
  readonly #later = new Map<S, Merged>();

  constructor(options: PushQueueOptions<S>) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting.size + this.#later.size;
  }

  get underWay(): number {
    return this.#underWay.size;
  }

  /**
   * Adds work for a session, merged with its pending push: the union of types, the newest version, the earliest event
   * time.
   */
  enqueue(session: S, pending: PendingPush): void {
    const busy = this.#underWay.has(session);
    if (!busy && this.#waiting.size === 0 && this.#underWay.size < this.#options.throttle) {
      this.#options.observer.waited(0);
      this.#start(session, pending);
      if (this.#waiting.size > 0) this.#fill();
      return;
    }
    const target = busy ? this.#later : this.#waiting;
    const known = target.get(session);
    if (known === undefined) {
      target.set(session, {
        types: pending.types,
        version: pending.version,
        eventTime: pending.eventTime,
        reasons: pending.reasons,
        enqueuedAt: this.#options.now(),
      });
    } else {
      known.types = joined(known.types, pending.types);
      known.reasons = joined(known.reasons, pending.reasons);
      known.version = Math.max(known.version, pending.version);
      known.eventTime = Math.min(known.eventTime, pending.eventTime);
    }
    this.#fill();
  }

  /** Removes a closed session: its pending push, and its slot, even when its push never ends. */
  remove(session: S): void {
    this.#waiting.delete(session);
    this.#later.delete(session);
    if (this.#underWay.delete(session)) this.#fill();
  }

  #fill(): void {
    while (this.#underWay.size < this.#options.throttle) {
      const next = this.#waiting.entries().next();
      if (next.done === true) return;
      const [session, merged] = next.value;
      this.#waiting.delete(session);
      this.#options.observer.waited(this.#options.now() - merged.enqueuedAt);
      this.#start(session, merged);
    }
  }

  #start(session: S, pending: PendingPush): void {
    this.#underWay.add(session);
    const outcome = this.#outcome(session, pending);
    if (typeof outcome === 'string') {
      this.#free(session);
      return;
    }
    const done = (): void => {
      this.#free(session);
      this.#fill();
    };
    outcome.then(done, done);
  }

  /** Pushes must not throw; if one does, its slot is freed. */
  #outcome(session: S, pending: PendingPush): PushOutcome | Promise<PushOutcome> {
    try {
      return this.#options.push(session, pending);
    } catch {
      return 'closed';
    }
  }

  /** The session's push has ended: work that arrived during it joins the queue. */
  #free(session: S): void {
    if (!this.#underWay.delete(session)) return;
    const later = this.#later.get(session);
    if (later === undefined) return;
    this.#later.delete(session);
    this.#waiting.set(session, later);
  }
}

function joined<T>(known: ReadonlySet<T>, more: ReadonlySet<T>): ReadonlySet<T> {
  return more.isSubsetOf(known) ? known : known.union(more);
}
