/**
 * Pushes to the sessions of a view what they are shown now that they were not shown before. Sessions that hold a part
 * of the view only are found by what they hold.
 */
import { XDS_TYPES } from '../../core/xds-types.ts';
import type { Push } from '../push.ts';
import type { PlacedSessionView, Session, SessionPushes, SessionView } from '../sessions/index.ts';
import type { ConcernedNames } from '../types.ts';
import type { Bundles } from '../views/index.ts';

/** What the sessions of a placement are shown. */
interface ShownAt {
  readonly shown: Bundles;
  /** What is tried, and by whom. */
  readonly trial: { readonly bundles: Bundles; readonly canaries: ReadonlySet<Session> } | undefined;
}

/** By placement of a view. */
export type Shown = ReadonlyMap<PlacedSessionView, ShownAt>;

const NOBODY: ReadonlySet<Session> = new Set();

/** @param canaries of the running trial */
export function shownOf(view: SessionView, canaries: ReadonlySet<Session> = NOBODY): Shown {
  const shown = new Map<PlacedSessionView, ShownAt>();
  for (const placed of view.placements()) {
    const trial = placed.held?.trial;
    shown.set(placed, { shown: placed.shown, trial: trial && { bundles: trial.bundles, canaries } });
  }
  return shown;
}

export class Deliveries {
  readonly #pushes: SessionPushes;
  readonly #concerned: ConcernedNames;
  readonly #version: () => number;

  /**
   * @param concerned what a change concerns
   * @param version that of the current snapshot
   */
  constructor(pushes: SessionPushes, concerned: ConcernedNames | undefined, version: () => number) {
    this.#pushes = pushes;
    this.#concerned = concerned ?? (() => undefined);
    this.#version = version;
  }

  /**
   * @param before what was shown before the change
   * @param canaries of the trial that runs now
   */
  deliver(view: SessionView, before: Shown, push: Push, canaries: ReadonlySet<Session> = NOBODY): void {
    const nothing: Push = { ...push, types: new Set(), version: this.#version() };
    const known = new Map<Bundles, Map<Bundles, Push>>();
    const pushOf = (had: Bundles, has: Bundles): Push => {
      const ofHad = known.get(had) ?? new Map<Bundles, Push>();
      known.set(had, ofHad);
      const made = ofHad.get(has) ?? {
        ...nothing,
        types: new Set(XDS_TYPES.filter((type) => had[type] !== has[type])),
      };
      ofHad.set(has, made);
      return made;
    };
    for (const session of this.#concernedBy(view, before, canaries)) {
      const placed = session.partOf(view);
      const was = placed && before.get(placed);
      const had = was?.trial?.canaries.has(session) === true ? was.trial.bundles : was?.shown;
      const own = placed === undefined || had === undefined ? nothing : pushOf(had, placed.shownTo(session));
      this.#pushes.deliver(session, view, own);
    }
  }

  #concernedBy(view: SessionView, before: Shown, canaries: ReadonlySet<Session>): ReadonlySet<Session> {
    const concerned = new Set(canaries);
    for (const placed of view.placements()) {
      const was = before.get(placed);
      for (const session of was?.trial?.canaries ?? NOBODY) if (view.sessions.has(session)) concerned.add(session);
      for (const session of placed.concernedBy(() => was && this.#namesBetween(was.shown, placed.shown)))
        concerned.add(session);
    }
    return concerned;
  }

  #namesBetween(before: Bundles, now: Bundles): readonly string[] | undefined {
    const all: string[] = [];
    for (const type of XDS_TYPES) {
      const names = before[type] === now[type] ? [] : this.#concerned(type, before[type], now[type]);
      if (names === undefined) return undefined;
      all.push(...names);
    }
    return all;
  }
}
