/**
 * The push queue: at most one merged pending push per session, and at most `throttle` pushes in flight
 * (CTL_PUSH_THROTTLE), a push being in flight until its bytes are handed to the socket. A session that gets new work
 * during its push waits again when the push ends.
 *
 * Callers share the time of pushes (see time-shares.ts): a caller with a thousand sessions, or with expensive ones,
 * only delays the sessions of others by its share. The sessions of one caller are served in order of arrival; sessions
 * that were already sent a part are preferred (see lane.ts), so that of a thousand proxies that connect, some are
 * complete early. After some time in a turn of the event loop, the rest waits for the next turn, so that
 * acknowledgements and other requests are read in between.
 *
 * A push that ends at once, such as a small one, does not allocate a promise: a changed endpoint causes a thousand of
 * them.
 */
import { TimeFairQueue } from '../../core/fairness/time-fair-queue.ts';
import { TimeShares } from '../../core/fairness/time-shares.ts';
import { mergedPush, type Push } from '../push.ts';
import type { PushOutcome } from '../types.ts';

/**
 * Time of pushes in a turn of the event loop, ms: a changed endpoint at a thousand proxies. If every hundred of them
 * waited for the next turn, it would first read the acknowledgements of the hundred before.
 */
const TURN_MS = 40;

/**
 * The time that a caller may use before the next caller's turn, ms: about that of a proxy that connects to a mesh of a
 * thousand services.
 */
export const QUANTUM_MS = 8;

/** The events that the queue reports; times in milliseconds. */
export interface QueueObserver {
  /** A session left the queue after waiting this long. */
  waited(milliseconds: number): void;
}

/** The properties of a session that the queue reads. */
interface Queued {
  /** The caller that the proxy belongs to. */
  readonly caller: string;
  /** Whether a part of the pending changes was sent. */
  readonly begun: boolean;
}

interface Waiting {
  /** All that waits for the session, merged. */
  push: Push;
  readonly enqueuedAt: number;
}

export interface PushQueueOptions<S> {
  readonly throttle: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  readonly push: (session: S, push: Push) => PushOutcome | Promise<PushOutcome>;
  readonly observer: QueueObserver;
  /** The time that callers have used, by other work of the thread as well. */
  readonly shares?: TimeShares | undefined;
  /** Calls `run` in the next turn of the event loop; setImmediate when left out. */
  readonly nextTurn?: ((run: () => void) => void) | undefined;
}

export class PushQueue<S extends Queued> {
  readonly #options: PushQueueOptions<S>;
  readonly #shares: TimeShares;
  readonly #nextTurn: (run: () => void) => void;
  readonly #order: TimeFairQueue<S>;
  /** The pending pushes of the sessions in `#order`. */
  readonly #waiting = new Map<S, Waiting>();
  readonly #underWay = new Set<S>();
  /** Work that arrived for a session during its push. */
  readonly #later = new Map<S, Waiting>();
  /** Time of pushes in this turn of the event loop, ms. */
  #spentMs = 0;
  /** Whether the next turn is scheduled, in which a new time limit applies. */
  #planned = false;

  constructor(options: PushQueueOptions<S>) {
    this.#options = options;
    this.#shares = options.shares ?? new TimeShares();
    this.#nextTurn = options.nextTurn ?? setImmediate;
    this.#order = new TimeFairQueue(this.#shares);
  }

  get waiting(): number {
    return this.#waiting.size + this.#later.size;
  }

  get underWay(): number {
    return this.#underWay.size;
  }

  /** Adds a push to a session, merged with its pending push. */
  enqueue(session: S, push: Push): void {
    const busy = this.#underWay.has(session);
    if (!busy && this.#waiting.size === 0 && this.#mayStart) {
      this.#options.observer.waited(0);
      this.#shares.serve(session.caller);
      this.#start(session, push);
      if (this.#waiting.size > 0) this.#fill();
      return;
    }
    const target = busy ? this.#later : this.#waiting;
    const known = target.get(session);
    if (known === undefined) target.set(session, { push, enqueuedAt: this.#options.now() });
    else known.push = mergedPush(push, known.push);
    if (!busy) this.#order.add(session.caller, session, session.begun);
    this.#fill();
  }

  /** Removes a closed session: its pending push, and its slot, even when its push never ends. */
  remove(session: S): void {
    if (this.#waiting.delete(session)) this.#order.remove(session.caller, session);
    this.#later.delete(session);
    if (this.#underWay.delete(session)) this.#fill();
  }

  get #mayStart(): boolean {
    return this.#underWay.size < this.#options.throttle && this.#spentMs < TURN_MS;
  }

  #fill(): void {
    while (this.#waiting.size > 0 && this.#mayStart) {
      const session = this.#order.next();
      const waiting = session && this.#waiting.get(session);
      if (session === undefined || waiting === undefined) return;
      this.#waiting.delete(session);
      this.#options.observer.waited(this.#options.now() - waiting.enqueuedAt);
      this.#start(session, waiting.push);
    }
  }

  #start(session: S, push: Push): void {
    this.#underWay.add(session);
    const started = this.#options.now();
    const outcome = this.#outcome(session, push);
    this.#spent(session.caller, this.#options.now() - started);
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

  #spent(caller: string, milliseconds: number): void {
    this.#shares.charge(caller, milliseconds);
    this.#spentMs += milliseconds;
    if (this.#planned) return;
    this.#planned = true;
    this.#nextTurn(() => {
      this.#planned = false;
      this.#spentMs = 0;
      this.#fill();
    });
  }

  /** Pushes must not throw; if one does, its slot is freed. */
  #outcome(session: S, push: Push): PushOutcome | Promise<PushOutcome> {
    try {
      return this.#options.push(session, push);
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
    this.#order.add(session.caller, session, session.begun);
  }
}
