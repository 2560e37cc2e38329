/**
 * Decides which pushes sessions get, and when. A push is postponed while another part of the same proxy is being
 * generated, and merged with a move to other views.
 */
import type { TimeShares } from '../../core/fairness/time-shares.ts';
import { mergedPush, type Push } from '../push.ts';
import type { PushOutcome } from '../types.ts';
import { changedTypes } from './changed-types.ts';
import { PushQueue } from './push-queue.ts';
import type { Session, SessionView } from './session.ts';

export interface SessionPushesOptions {
  /** Pushes that may be in flight at a time. */
  readonly throttle: number;
  /** The time that callers have used. */
  readonly shares: TimeShares;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Version of the current snapshot. */
  readonly version: () => number;
  /** Called with how long a push waited for its turn. */
  readonly waited: (milliseconds: number) => void;
}

export class SessionPushes {
  readonly #queue: PushQueue<Session>;
  readonly #version: () => number;

  constructor({ throttle, shares, now, version, waited }: SessionPushesOptions) {
    this.#version = version;
    this.#queue = new PushQueue({ throttle, shares, now, push: send, observer: { waited } });
  }

  get waiting(): number {
    return this.#queue.waiting;
  }

  get underWay(): number {
    return this.#queue.underWay;
  }

  /** Queues a push that the proxy requested, without a change. */
  pushRequested(session: Session, asked: Push): void {
    this.#queue.enqueue(session, asked);
  }

  /** Queues a push of a change that the session's parts include. */
  pushChange(session: Session, change: Push): void {
    session.changed(change);
    this.#queue.enqueue(session, change);
  }

  /** Queues the session's postponed push. */
  pushPostponed(session: Session): void {
    const held = session.takePostponed();
    if (held !== undefined) this.pushChange(session, { ...held, version: this.#version() });
  }

  /**
   * Moves the session to its next views if these are built. The push covers the differences, `change` of the current
   * views, and the postponed push. Returns true if it moved.
   */
  move(session: Session, change: Push): boolean {
    if (!session.isMoving) return false;
    const before = session.content();
    if (!session.adopt()) return false;
    const moved = { ...change, types: change.types.union(changedTypes(before, session.content())) };
    this.#pushOrSettle(session, mergedPush(moved, session.takePostponed()));
    return true;
  }

  /**
   * Queues a push of the changes of a view's commit. While another part of the same proxy is being generated, the push
   * is postponed until that part's commit: once, or during a move until the move. So a change of two parts results in
   * one push.
   */
  commit(session: Session, committed: SessionView, change: Push): void {
    // A view that it moves to: pushed with the move.
    if (session.partOf(committed) === undefined) return;
    const held = session.takePostponed();
    const merged = mergedPush(change, held);
    const waits = (session.isMoving || held === undefined) && session.awaitsAnother(committed);
    if (merged.types.size > 0 && waits) session.postpone(merged);
    else this.#pushOrSettle(session, merged);
  }

  /** Moves the session to its next views if these are built, else pushes what one of its views is shown now. */
  deliver(session: Session, view: SessionView, change: Push): void {
    if (!this.move(session, change)) this.commit(session, view, change);
    session.resolveNeeds();
  }

  /** The session is closed. */
  remove(session: Session): void {
    this.#queue.remove(session);
  }

  /** Queues a push; an empty one only if the session may have acknowledged everything already. */
  #pushOrSettle(session: Session, change: Push): void {
    if (change.types.size > 0) this.pushChange(session, change);
    else if (session.mayBeSynced) this.#queue.enqueue(session, change);
  }
}

function send(session: Session, push: Push): PushOutcome | Promise<PushOutcome> {
  const known = session.converging;
  const outcome = session.sink.push(push);
  if (typeof outcome === 'string') {
    session.pushed(outcome, known);
    return outcome;
  }
  return outcome.then((late) => {
    session.pushed(late, known);
    return late;
  });
}
