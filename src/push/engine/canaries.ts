/**
 * Runs the trials of all views: chooses canaries, sets deadlines, and pushes what the sessions of a view are shown of a
 * commit. What is shown to whom is decided by `push/canary`.
 */
import type { XdsType } from '../../core/xds-types.ts';
import { XDS_TYPES } from '../../core/xds-types.ts';
import { type Before, Gate, type Item, Trial, type Withheld } from '../canary/index.ts';
import { mergedPush, type Push } from '../push.ts';
import type { PlacedSessionView, Session, SessionPushes, SessionView } from '../sessions/index.ts';
import type { FirstNames } from '../views/index.ts';
import { CanaryChoice } from './canary-choice.ts';
import { Deliveries, type Shown, shownOf } from './deliveries.ts';
import type { EngineOptions } from './engine-options.ts';
import { trialCandidates } from './trial-candidates.ts';

/** The longest time that proxies wait for a canary's answer, ms. */
export const CANARY_BOUND_MS = 300;

/**
 * How long after the last proxy that rejected a version is gone the version is tried again, ms: at most so often are
 * more proxies sent what others have rejected.
 */
export const RETRY_ABANDONED_MS = 60_000;

type CanaryOptions = Pick<EngineOptions, 'canaryAbove' | 'concerned' | 'now' | 'later' | 'random' | 'observer'>;

/** A change that was committed at a time, monotonic ms. */
interface Waiting {
  readonly since: number;
  readonly push: Push;
}

/** The state of a view for which something was tried. */
interface State {
  readonly view: SessionView;
  readonly gate: Gate<PlacedSessionView, Session>;
  /** When the changes of the trial were committed. */
  since: number;
  /** The push of the changes that are tried. */
  push: Push | undefined;
  /** The same for changes that were committed meanwhile. */
  next: Waiting | undefined;
  deadline: { cancel(): void } | undefined;
  retry: { cancel(): void } | undefined;
  /** The same where another caller has proxies in the view now. */
  recheck: { cancel(): void } | undefined;
}

/** What the sessions of a view had before a commit. */
export interface Prepared {
  readonly shown: Shown;
  /** Undefined: they are shown what is committed. */
  readonly gated: Gated | undefined;
}

interface Gated {
  readonly state: State;
  readonly before: Before<PlacedSessionView>;
  readonly ungenerated: readonly XdsType[];
  /** The view that the sessions have; of a new view, the one that most of them move from. */
  readonly from: SessionView;
}

/** What is tried, and what proxies had before. */
interface Tried {
  readonly items: ReadonlyMap<string, Item>;
  readonly before: Before<PlacedSessionView>;
}

export class Canaries {
  readonly #options: CanaryOptions;
  readonly #deliveries: Deliveries;
  readonly #version: () => number;
  readonly #choice: CanaryChoice;
  readonly #states = new WeakMap<SessionView, State>();

  /** @param version that of the current snapshot */
  constructor(options: CanaryOptions, pushes: SessionPushes, version: () => number) {
    this.#options = options;
    this.#deliveries = new Deliveries(pushes, options.concerned, version);
    this.#version = version;
    this.#choice = new CanaryChoice(options);
  }

  /** What is withheld from the proxies of a view. */
  withheld(view: SessionView): Iterable<Withheld<Session>> {
    if (view.sessions.size === 0) return [];
    return this.#states.get(view)?.gate.withheld.entries() ?? [];
  }

  /** Number of resources that are withheld from the proxies of views, by type. */
  withheldCounts(views: Iterable<SessionView>): ReadonlyMap<XdsType, number> {
    const counts = new Map<XdsType, number>();
    for (const view of views) for (const { type } of this.withheld(view)) counts.set(type, (counts.get(type) ?? 0) + 1);
    return counts;
  }

  /** To be called before a commit of the view. */
  prepare(view: SessionView): Prepared {
    const shown = this.#shownOf(view);
    const above = this.#options.canaryAbove ?? Number.POSITIVE_INFINITY;
    if (above === Number.POSITIVE_INFINITY) return { shown, gated: undefined };
    if (view.isCompleting && this.#states.get(view)?.gate.isActive !== true) return { shown, gated: undefined };
    // Proxies wait for the trial of a new view once, however often the view is generated meanwhile.
    const isTried = this.#states.get(view)?.gate.trial !== undefined;
    const from = (isTried ? undefined : this.#leftFor(view, above)) ?? view;
    const state = from === view ? this.#stateOf(view, above) : this.#begin(view, from);
    if (state === undefined) return { shown, gated: undefined };
    state.gate.reached(view.committedVersion);
    const placements = [...view.placements()].filter(({ initialized }) => initialized);
    const gated = {
      state,
      before: new Map(placements.map((placed) => [placed, placed.shown])),
      ungenerated: XDS_TYPES.filter((type) => !from.hasGenerated(type)),
      from,
    };
    return { shown: this.#shownOf(view), gated };
  }

  /**
   * To be called after the commit: pushes what the sessions of the view are shown of it.
   * @param first what was generated for the first time, because proxies need it
   */
  committed(view: SessionView, { shown, gated }: Prepared, push: Push, first: FirstNames): void {
    if (gated !== undefined) this.#gate(gated, push, first);
    this.#deliver(view, shown, push);
  }

  #gate({ state, before, ungenerated, from }: Gated, push: Push, first: FirstNames): void {
    const { view, gate } = state;
    if (from !== view) for (const [placed, bundles] of placedLike(view, from)) before.set(placed, bundles);
    gate.firstGenerated(
      ungenerated.filter((type) => view.hasGenerated(type)),
      before,
    );
    gate.firstClusters(first.cds, before);
    gate.firstHosts(first.vhds, before);
    gate.place([...view.placements()].filter((placed) => placed.initialized && !before.has(placed)));
    const since = this.#options.now();
    if (gate.trial === undefined) this.#proceed(state, { push, since }, before, from !== view);
    else {
      state.next = { push: mergedPush(push, state.next?.push), since: state.next?.since ?? since };
      gate.follow();
    }
  }

  /** Endpoints of these views changed. */
  endpointsChanged(views: ReadonlySet<SessionView>): void {
    for (const view of views) this.#states.get(view)?.gate.follow();
  }

  /**
   * A session has the view or will have it.
   * @param added its placement, if that is new
   */
  placed(view: SessionView, added: PlacedSessionView | undefined): void {
    const state = this.#states.get(view);
    if (state === undefined) return;
    const { gate } = state;
    if (added !== undefined) gate.place([added]);
    if (gate.withheld.hasAbandoned) this.#planRetry(state);
    if (gate.withheld.size > 0 && gate.withheld.hasDoubtful(callersOf(view))) this.#planRecheck(state);
  }

  /** The proxy of a session has answered a response, or was found to need none. */
  answered(session: Session): void {
    for (const { view } of session.views) {
      const state = this.#states.get(view);
      if (state?.gate.trial?.has(session) !== true) continue;
      this.#ask(state, session);
      if (state.gate.trial.decided) this.#finish(state);
    }
  }

  /** A session has left the view. */
  left(view: SessionView, session: Session): void {
    const state = this.#states.get(view);
    if (state === undefined || session.partOf(view) !== undefined) return;
    const { gate } = state;
    gate.withheld.left(session);
    if (gate.withheld.hasAbandoned) this.#planRetry(state);
    if (gate.trial?.remove(session) !== true) return;
    const shown = this.#shownOf(view);
    this.#addCanaries(state, gate.trial, { items: gate.items, before: new Map() });
    if (gate.trial.canaries().size === 0 || gate.trial.decided) this.#finish(state);
    else this.#deliver(view, shown, state.push);
  }

  /** The state of a view in which changes are tried or something is withheld. */
  #stateOf(view: SessionView, above: number): State | undefined {
    const known = this.#states.get(view);
    if (known?.gate.isActive === true) return known;
    if (!view.built || view.sessions.size <= above) return undefined;
    return known ?? this.#begin(view, view);
  }

  /** The view that most sessions leave for this one, where no session has this one yet. */
  #leftFor(view: SessionView, above: number): SessionView | undefined {
    const counts = new Map<SessionView, number>();
    for (const session of view.sessions) {
      const left = session.views.find((each) => each.view.view.part === view.view.part)?.view;
      if (left === view) return undefined;
      if (left !== undefined) counts.set(left, (counts.get(left) ?? 0) + 1);
    }
    const [most] = [...counts].sort(([, a], [, b]) => b - a);
    const [left, count = 0] = most ?? [];
    if (left === undefined) return undefined;
    return count > above || this.#states.get(left)?.gate.isActive === true ? left : undefined;
  }

  /** @param from the view itself, or the one that its sessions leave */
  #begin(view: SessionView, from: SessionView): State {
    const known = this.#states.get(view);
    known?.deadline?.cancel();
    known?.retry?.cancel();
    known?.recheck?.cancel();
    const gate = new Gate<PlacedSessionView, Session>(() => view.placements());
    if (from !== view) {
      for (const placed of view.placements()) placed.held = undefined;
      const { gate: left } = this.#states.get(from) ?? {};
      gate.inherit(from.committedVersion, left, (session) => view.sessions.has(session));
      gate.withheld.forgetDoubtful(callersOf(view));
    }
    const idle = { push: undefined, next: undefined, deadline: undefined, retry: undefined, recheck: undefined };
    const state: State = { view, gate, since: 0, ...idle };
    this.#states.set(view, state);
    if (gate.withheld.hasAbandoned) this.#planRetry(state);
    return state;
  }

  /** Tries what was generated, or shows it where there is nothing to try or nobody to try it. */
  #proceed(state: State, { push, since }: Waiting, before: Before<PlacedSessionView>, isNew = false): void {
    const { view, gate } = state;
    const items = gate.examine(before);
    const trial = new Trial<Session>(new Set(items.keys()), since + CANARY_BOUND_MS);
    const left = trial.deadline - this.#options.now();
    if (items.size > 0 && left > 0) this.#addCanaries(state, trial, { items, before });
    if (trial.canaries().size === 0) {
      gate.release(before, view.committedVersion);
      return;
    }
    state.since = since;
    state.push = push;
    gate.hold(before, { trial, items, version: view.committedVersion, isNew });
    state.deadline = this.#options.later(left, () => this.#finish(state));
  }

  #addCanaries({ view }: State, trial: Trial<Session>, { items, before }: Tried): void {
    // A proxy that rejects nearly everything of a type says so of a name that no resource has.
    const types = new Set(Array.from(items.values(), ({ type }) => type));
    const isFit = ({ sink }: Session) => ![...types].some((type) => typeof sink.answerOf?.(type, '') === 'object');
    const isCanary = (session: Session) => this.#isCanary(session);
    const candidates = trialCandidates(view, before, items, this.#options.concerned);
    while (trial.needsCanary) {
      const chosen = this.#choice.next(view, trial, { candidates, isCanary, isFit });
      if (chosen === undefined) return;
      trial.add(chosen, chosen.caller);
    }
  }

  /** Whether a session is a canary of one of its views, or of one that it moves to. */
  #isCanary(session: Session): boolean {
    return session.allViews.some(({ view }) => this.#states.get(view)?.gate.trial?.has(session) === true);
  }

  #ask({ view, gate }: State, session: Session): void {
    // It has not moved to the view yet.
    if (session.partOf(view) === undefined) return;
    gate.trial?.answered(session, (key) => {
      const item = gate.items.get(key);
      return (item && session.sink.answerOf?.(item.type, item.name)) ?? 'unrequested';
    });
  }

  #finish(state: State): void {
    const { view, gate, push, next, since } = state;
    const { trial } = gate;
    if (trial === undefined) return;
    state.deadline?.cancel();
    const shown = this.#shownOf(view);
    for (const session of trial.canaries()) this.#ask(state, session);
    if (this.#options.now() >= trial.deadline)
      for (const session of trial.silent()) if (session.partOf(view) !== undefined) this.#choice.wasSilent(session);
    const outcome = trial.outcome(callersOf(view));
    const { isBehind } = gate;
    const withheld = gate.settle(outcome, Date.now(), ({ connectionId }) => connectionId);
    state.push = undefined;
    state.next = undefined;
    if (gate.withheld.hasDoubtful(callersOf(view))) this.#planRecheck(state);
    if (next !== undefined && isBehind) this.#proceed(state, next, new Map());
    const all = outcome.accepted.size === trial.items.size;
    const result = withheld.length > 0 ? 'refused' : all ? 'accepted' : 'released';
    this.#options.observer.tried(result, this.#options.now() - since);
    if (withheld.length > 0) this.#options.observer.withheld(withheld, view.key);
    this.#deliver(view, shown, next === undefined || push === undefined ? push : mergedPush(next.push, push));
  }

  #planRetry(state: State): void {
    state.retry ??= this.#options.later(RETRY_ABANDONED_MS, () => {
      state.retry = undefined;
      const { view, gate } = state;
      if (view.sessions.size === 0 || !gate.withheld.hasAbandoned) return;
      if (gate.trial !== undefined) this.#planRetry(state);
      else this.#tryAgain(state, () => gate.withheld.forgetAbandoned());
    });
  }

  /** Tries again what too few callers have rejected: no caller keeps a change from the proxies of another. */
  #planRecheck(state: State): void {
    state.recheck ??= this.#options.later(0, () => {
      state.recheck = undefined;
      const { view, gate } = state;
      // The end of a running trial plans it again.
      if (view.sessions.size === 0 || gate.trial !== undefined || !gate.withheld.hasDoubtful(callersOf(view))) return;
      this.#tryAgain(state, () => gate.withheld.forgetDoubtful(callersOf(view)));
    });
  }

  #tryAgain(state: State, forget: () => void): void {
    const { view } = state;
    const shown = this.#shownOf(view);
    forget();
    const since = this.#options.now();
    const push: Push = { types: new Set(), version: this.#version(), eventTime: since, reasons: new Set() };
    this.#proceed(state, { push, since }, new Map());
    this.#deliver(view, shown, push);
  }

  #shownOf(view: SessionView): Shown {
    return shownOf(view, this.#states.get(view)?.gate.trial?.canaries());
  }

  #deliver(view: SessionView, before: Shown, push: Push | undefined): void {
    if (push === undefined) return;
    this.#deliveries.deliver(view, before, push, this.#states.get(view)?.gate.trial?.canaries());
  }
}

/** What proxies have in the placements of the view that they leave, by the same placements of the new one. */
function placedLike(view: SessionView, from: SessionView): Before<PlacedSessionView> {
  const known = [...from.placements()].filter(({ initialized }) => initialized);
  const found: Before<PlacedSessionView> = new Map();
  for (const placed of view.placements()) {
    const like = known.find(({ key }) => key === placed.key) ?? known[0];
    if (placed.initialized && like !== undefined) found.set(placed, like.shown);
  }
  return found;
}

/** Number of callers that have proxies in the view, of which no more than two are counted. */
function callersOf(view: SessionView): number {
  const callers = new Set<string>();
  for (const placed of view.placements())
    for (const caller of placed.callers()) if (callers.add(caller).size > 1) return 2;
  return callers.size;
}
