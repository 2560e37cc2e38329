/**
 * What sessions are told, and when: pushes of what changed in their parts on their way to the queue, held back where
 * another part of the same proxy is about to change, and told with a move to other views.
 */
import type { PendingPush, PushOutcome } from '../types.ts';
import { PushQueue } from './push-queue.ts';
import { changedTypes, mergedPush, type PostponedPush, type Session, type SessionView } from './session.ts';

export interface SessionPushesOptions {
  /** Pushes that are under way at a time. */
  readonly throttle: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Of the current snapshot. */
  readonly version: () => number;
  /** Told how long a push has waited for its turn. */
  readonly waited: (milliseconds: number) => void;
}

export class SessionPushes {
  readonly #queue: PushQueue<Session>;
  readonly #version: () => number;

  constructor({ throttle, now, version, waited }: SessionPushesOptions) {
    this.#version = version;
    this.#queue = new PushQueue({ throttle, now, push, observer: { waited } });
  }

  get waiting(): number {
    return this.#queue.waiting;
  }

  get underWay(): number {
    return this.#queue.underWay;
  }

  /** Queues a push that the proxy asked for: nothing changed. */
  pushRequested(session: Session, asked: PostponedPush): void {
    this.#queue.enqueue(session, this.#pending(asked));
  }

  /** Queues a change that is in the session's parts. */
  pushChange(session: Session, change: PostponedPush): void {
    const pending = this.#pending(change);
    session.changed(pending);
    this.#queue.enqueue(session, pending);
  }

  /** Queues what was held back for a session. */
  pushPostponed(session: Session): void {
    const held = session.takePostponed();
    if (held !== undefined) this.pushChange(session, held);
  }

  /**
   * Moves the session to its wanted views if they are built. It is pushed what differs there, what changed in its
   * present views just now, and what was held back for these.
   */
  move(session: Session, change: PostponedPush): boolean {
    if (!session.isMoving) return false;
    const before = session.content();
    if (!session.adopt()) return false;
    const moved = { ...change, types: change.types.union(changedTypes(before, session.content())) };
    this.#pushOrSettle(session, mergedPush(moved, session.takePostponed()));
    return true;
  }

  /**
   * Queues a push of what a view's commit changed. While another part of the same proxy is being generated the push is
   * held back for that part's commit, once, and for a move as often as it takes: a change that concerns two parts is
   * one push.
   */
  commit(session: Session, committed: SessionView, change: PostponedPush): void {
    // A part that it is about to have: told of when it has it.
    if (session.partOf(committed) === undefined) return;
    const held = session.takePostponed();
    const merged = mergedPush(change, held);
    const waits = (session.isMoving || held === undefined) && session.awaitsAnother(committed);
    if (merged.types.size > 0 && waits) session.postpone(merged);
    else this.#pushOrSettle(session, merged);
  }

  /** The session is closed. */
  remove(session: Session): void {
    this.#queue.remove(session);
  }

  /** Queues a push; one of nothing only where what was acknowledged before may now be all that there is. */
  #pushOrSettle(session: Session, change: PostponedPush): void {
    if (change.types.size > 0) this.pushChange(session, change);
    else if (session.mayBeSynced) this.#queue.enqueue(session, this.#pending(change));
  }

  #pending({ types, eventTime, reasons }: PostponedPush): PendingPush {
    return { types, eventTime, reasons, version: this.#version() };
  }
}

function push(session: Session, pending: PendingPush): PushOutcome | Promise<PushOutcome> {
  const known = session.converging;
  const outcome = session.sink.push(pending);
  if (typeof outcome === 'string') {
    session.pushed(outcome, known);
    return outcome;
  }
  return outcome.then((late) => {
    session.pushed(late, known);
    return late;
  });
}
