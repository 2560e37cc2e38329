/**
 * Chooses the canaries of a trial: any connected proxies of the view, so that none is a canary more often than others,
 * but rather of another caller than the canaries that there are, and not those that did not answer lately.
 */
import type { Trial } from '../canary/index.ts';
import type { Session, SessionView } from '../sessions/index.ts';

/** How long a proxy that did not answer is not chosen, ms, and its caller only when there is no other. */
const SILENT_MS = 60_000;

/** Most callers that are remembered as silent. */
const MAX_SILENT_CALLERS = 256;

interface ChoiceOptions {
  /** Monotonic ms. */
  readonly now: () => number;
  /** 0 ≤ x < 1 */
  readonly random: () => number;
}

/** What is known of candidates. */
interface Candidates {
  /** Proxies that are sent what is tried. */
  readonly candidates: ReadonlySet<Session>;
  /**
   * True for a canary of another view. Proxies that move to several new views do so when all of these are there, so
   * that they should be canaries of all of them.
   */
  readonly isCanary: (session: Session) => boolean;
  /** False for one whose answers would say nothing. */
  readonly isFit: (session: Session) => boolean;
}

export class CanaryChoice {
  readonly #options: ChoiceOptions;
  /** Until when a session is not chosen, monotonic ms. */
  readonly #silent = new WeakMap<Session, number>();
  readonly #silentCallers = new Map<string, number>();

  constructor(options: ChoiceOptions) {
    this.#options = options;
  }

  /** A canary did not answer in time. */
  wasSilent(session: Session): void {
    const until = this.#options.now() + SILENT_MS;
    this.#silent.set(session, until);
    this.#silentCallers.delete(session.caller);
    this.#silentCallers.set(session.caller, until);
    const [oldest] = this.#silentCallers.keys();
    if (oldest !== undefined && this.#silentCallers.size > MAX_SILENT_CALLERS) this.#silentCallers.delete(oldest);
  }

  /** Undefined when no other proxy can be asked. */
  next(view: SessionView, trial: Trial<Session>, { candidates, isCanary, isFit }: Candidates): Session | undefined {
    const now = this.#options.now();
    const callers = trial.callers();
    const sessions = [...candidates];
    const first = Math.floor(this.#options.random() * sessions.length);
    let [best, bestCost]: [Session | undefined, number] = [undefined, Number.POSITIVE_INFINITY];
    for (let offset = 0; offset < sessions.length && bestCost > 0; offset++) {
      const session = sessions[(first + offset) % sessions.length];
      if (session === undefined || trial.has(session) || !mayAnswer(session, view)) continue;
      if ((this.#silent.get(session) ?? 0) > now) continue;
      const cost =
        (callers.has(session.caller) ? 8 : 0) +
        ((this.#silentCallers.get(session.caller) ?? 0) > now ? 4 : 0) +
        (isCanary(session) ? 0 : 2) +
        (session.settled ? 0 : 1);
      // Last, because it looks at what the proxy has.
      if (cost < bestCost && isFit(session)) [best, bestCost] = [session, cost];
    }
    return best;
  }
}

/** A proxy with this view, or one that moves to it from others. */
function mayAnswer(session: Session, view: SessionView): boolean {
  if (session.sink.answerOf === undefined) return false;
  return (
    session.partOf(view) !== undefined || (view.committedVersion > 0 && session.views.length > 0 && session.isMoving)
  );
}
