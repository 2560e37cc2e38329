/**
 * What the sessions of one view are shown of what was generated for it: all of it, or, while some of it is tried or
 * withheld, other bundles in its placements (`PlacedView.held`). No clock, no session: `engine/canaries.ts` chooses the
 * canaries and decides when a trial ends.
 */
import type { XdsType } from '../../core/xds-types.ts';
import { nextBundle } from '../bundles/index.ts';
import type { Bundle } from '../types.ts';
import type { Bundles, HeldBundles } from '../views/index.ts';
import { AcceptedVersions } from './accepted-versions.ts';
import {
  Composer,
  type Composition,
  HELD_TYPES,
  sameBundles,
  TRIED_TYPES,
  without,
  withoutMissingClusters,
} from './composition.ts';
import type { Outcome, Trial } from './trial.ts';
import { type Item, itemOf, type Withheld, WithheldResources } from './withheld.ts';

/** A placement of the view, as far as the gate is concerned. */
export interface GatedPlacement<S> {
  readonly initialized: boolean;
  readonly bundles: Bundles;
  held: HeldBundles<S> | undefined;
}

interface RunningTrial<P, S> {
  readonly trial: Trial<S>;
  readonly items: ReadonlyMap<string, Item>;
  /** What was generated when it began. */
  readonly made: Map<P, Bundles>;
  readonly version: number;
  /** Of a new view: the bundles of the view that its sessions leave. */
  readonly kept: Map<P, Bundles> | undefined;
}

/** A trial that begins. */
export interface NewTrial<S> {
  readonly trial: Trial<S>;
  readonly items: ReadonlyMap<string, Item>;
  /** Snapshot version of what is tried. */
  readonly version: number;
  /** The view is new. */
  readonly isNew: boolean;
}

const NO_ITEMS: ReadonlyMap<string, Item> = new Map();

/** What proxies of placements had before a commit. */
export type Before<P> = Map<P, Bundles>;

interface Side<P> extends Composition {
  readonly placed: P;
}

/**
 * @template P a placement
 * @template S a session
 */
export class Gate<P extends GatedPlacement<S>, S> {
  /** What is withheld from the proxies of the view. */
  readonly withheld = new WithheldResources<S>();
  readonly #placements: () => Iterable<P>;
  readonly #accepted = new AcceptedVersions();
  /** The snapshot version of what sessions are shown, and the last one without anything withheld. */
  #version = 0;
  #completeVersion = 0;
  #running: RunningTrial<P, S> | undefined;

  /** @param placements of the view */
  constructor(placements: () => Iterable<P>) {
    this.#placements = placements;
  }

  get trial(): Trial<S> | undefined {
    return this.#running?.trial;
  }

  /**
   * Of a new view: takes over from the view that sessions leave for this one.
   * @param version snapshot version of what they have
   * @param isHere which sessions move
   */
  inherit(version: number, other: Gate<P, S> | undefined, isHere: (session: S) => boolean): void {
    this.#completeVersion = other?.isActive === true ? other.#completeVersion : version;
    if (other !== undefined) this.withheld.inherit(other.withheld, isHere);
  }

  /** The items of the trial. */
  get items(): ReadonlyMap<string, Item> {
    return this.#running?.items ?? NO_ITEMS;
  }

  /** Sessions are shown something else than what was generated. */
  get isActive(): boolean {
    return this.#running !== undefined || this.withheld.size > 0;
  }

  /** Something was generated since the trial began. */
  get isBehind(): boolean {
    const running = this.#running;
    if (running === undefined) return false;
    return this.#initialized().some((placed) => {
      const made = running.made.get(placed) ?? placed.bundles;
      return HELD_TYPES.some((type) => made[type] !== placed.bundles[type]);
    });
  }

  /** What is shown outside a trial is what was generated of this snapshot version. */
  reached(version: number): void {
    if (this.#running !== undefined) return;
    this.#version = version;
    if (this.withheld.size === 0) this.#completeVersion = version;
  }

  /** These types were generated for the first time: no proxy has asked for them before, so that none has to wait. */
  firstGenerated(types: readonly XdsType[], before: Before<P>): void {
    this.#showFirst(before, (kept, latest) => ({
      ...kept,
      ...Object.fromEntries(types.map((type) => [type, latest[type]])),
    }));
  }

  /** The same of clusters of these names. */
  firstClusters(names: readonly string[], before: Before<P>): void {
    if (names.length === 0) return;
    const composer = new Composer();
    this.#showFirst(before, (kept, latest) =>
      following({ ...kept, cds: withNames(names, kept.cds, latest.cds) }, latest, composer),
    );
  }

  /** The same of virtual hosts. */
  firstHosts(names: readonly string[], before: Before<P>): void {
    if (names.length === 0) return;
    this.#showFirst(before, (kept, latest) => ({ ...kept, vhds: withNames(names, kept.vhds, latest.vhds) }));
  }

  #showFirst(before: Before<P>, withFirst: (kept: Bundles, latest: Bundles) => Bundles): void {
    for (const placed of this.#initialized()) {
      const latest = placed.bundles;
      const [known, made, { held }] = [before.get(placed), this.#running?.made.get(placed), placed];
      if (known !== undefined) before.set(placed, withFirst(known, latest));
      if (made !== undefined) this.#running?.made.set(placed, withFirst(made, latest));
      if (held === undefined) continue;
      const trial = held.trial && { ...held.trial, bundles: withFirst(held.trial.bundles, latest) };
      placed.held = { ...held, shown: withFirst(held.shown, latest), trial };
    }
  }

  /**
   * What has to be tried of what was generated: resources that differ from the accepted ones, in versions that were
   * neither accepted nor rejected before. What is no longer generated is not withheld any more.
   */
  examine(before: Before<P>): ReadonlyMap<string, Item> {
    const all = this.#sides(before);
    this.withheld.forgetFormer(all);
    const sides = this.withheld.withDependents(all);
    const untested = new Map<string, Item>();
    for (const { made, accepted } of sides) {
      for (const type of TRIED_TYPES) {
        for (const { name, version } of made[type].diffFrom(accepted[type]).changed) {
          const item = itemOf(type, name);
          if (this.withheld.has(item) || this.#accepted.has(item, version)) continue;
          const known = untested.get(item) ?? { type, name, versions: new Set() };
          untested.set(item, known);
          known.versions.add(version);
        }
      }
    }
    return untested;
  }

  /** Shows all that was generated of a snapshot version, except for what is withheld. */
  release(before: Before<P>, version: number): void {
    this.#show(this.#sides(before), version);
  }

  /**
   * Begins a trial after {@link examine}: sessions that are not its canaries keep what they have. Of a new view they
   * keep their old view, and those that have none do not wait.
   */
  hold(before: Before<P>, { trial, items, version, isNew }: NewTrial<S>): void {
    const made = new Map<P, Bundles>();
    const kept = new Map<P, Bundles>();
    const composer = new Composer();
    if (isNew) this.#version = version;
    const names = this.withheld.names();
    for (const side of this.withheld.spliced(this.#sides(before))) {
      const { placed, accepted, latest } = side;
      made.set(placed, latest);
      const bundles = composer.compose(side, names);
      const ofTrial = { bundles, version, isNew, has: (session: S) => trial.has(session) };
      kept.set(placed, accepted);
      placed.held = this.#held(isNew ? bundles : following(accepted, latest, composer), ofTrial);
    }
    this.#running = { trial, items, made, version, kept: isNew ? kept : undefined };
  }

  /**
   * Ends the trial and shows what was tried, except for what was refused. Returns what is withheld from now on.
   * @param nowMs wall clock
   */
  settle({ accepted, refused }: Outcome<S>, nowMs: number, nameOf: (session: S) => string): readonly Withheld<S>[] {
    const running = this.#running;
    if (running === undefined) return [];
    this.#running = undefined;
    for (const item of accepted)
      for (const version of running.items.get(item)?.versions ?? []) this.#accepted.add(item, version);
    const sides = this.#sides(new Map()).map((side) => {
      const { placed, made, accepted: shown } = side;
      return { ...side, made: running.made.get(placed) ?? made, accepted: running.kept?.get(placed) ?? shown };
    });
    for (const [item, refusals] of refused) {
      const tried = running.items.get(item);
      if (tried === undefined) continue;
      const versions = sides.map((side) => side.accepted[tried.type].get(tried.name)?.version);
      const acceptedVersion = versions.find((each) => each !== undefined);
      this.withheld.add(tried, { refusals, acceptedVersion, sinceMs: nowMs, nameOf });
    }
    this.#show(sides, running.version);
    return this.withheld.rejectedAt(nowMs);
  }

  /** Shows what is not held back of what was generated: endpoints and secrets. */
  follow(): void {
    const composer = new Composer();
    for (const placed of this.#initialized()) {
      const { held, bundles } = placed;
      if (held === undefined) continue;
      const trial = held.trial && { ...held.trial, bundles: following(held.trial.bundles, bundles, composer) };
      placed.held = { ...held, trial, shown: following(held.shown, bundles, composer) };
    }
  }

  /** Placements that are new are shown the accepted version of what is tried or withheld, as others have it. */
  place(added: readonly P[]): void {
    if (!this.isActive || added.length === 0) return;
    const running = this.#running;
    const others = this.#initialized().filter((placed) => !added.includes(placed));
    const known = [...(running?.kept?.values() ?? []), ...others.flatMap(({ held }) => held?.shown ?? [])][0];
    const composer = new Composer();
    const names = this.withheld.names(this.items.values());
    for (const placed of added) {
      const { bundles } = placed;
      const accepted = known ?? without(bundles, names);
      const side = withoutMissingClusters({ made: bundles, latest: bundles, accepted }, names);
      placed.held = this.#held(composer.compose(side, names), undefined);
      if (running?.kept === undefined) continue;
      running.made.set(placed, bundles);
      running.kept.set(placed, accepted);
      const tried = composer.compose(side, this.withheld.names());
      const ofTrial = { bundles: tried, version: running.version, isNew: true };
      placed.held = this.#held(tried, { ...ofTrial, has: (session) => running.trial.has(session) });
    }
  }

  #show(all: readonly Side<P>[], version: number): void {
    const sides = this.withheld.withDependents(all);
    const names = this.withheld.names();
    const composer = new Composer();
    this.#version = version;
    if (this.withheld.size === 0) this.#completeVersion = version;
    for (const side of sides) {
      const { placed } = side;
      const shown = composer.compose(side, names);
      placed.held = sameBundles(shown, placed.bundles) ? undefined : this.#held(shown, undefined);
    }
  }

  #held(shown: Bundles, trial: HeldBundles<S>['trial']): HeldBundles<S> {
    return { shown, trial, version: this.#version, completeVersion: this.#completeVersion };
  }

  #initialized(): P[] {
    return [...this.#placements()].filter((each) => each.initialized);
  }

  #sides(before: Before<P>): Side<P>[] {
    return this.#initialized().map((placed) => {
      const { bundles, held } = placed;
      return { placed, made: bundles, latest: bundles, accepted: held?.shown ?? before.get(placed) ?? bundles };
    });
  }
}

/** What sessions keep, with what is not held back of what was generated. */
function following(kept: Bundles, latest: Bundles, composer: Composer): Bundles {
  const eds = composer.endpoints(kept.cds, latest, kept.eds);
  return eds === kept.eds && latest.sds === kept.sds ? kept : { ...kept, eds, sds: latest.sds };
}

/** What was kept, with these resources of the latest bundle; the latest bundle itself if nothing else is different. */
function withNames(names: readonly string[], kept: Bundle, latest: Bundle): Bundle {
  const first = names.map((name) => [name, latest.get(name)] as const);
  const made = nextBundle(
    kept,
    first.filter(([, resource]) => resource !== undefined),
  );
  const { changed, removed } = latest.diffFrom(made);
  return changed.length + removed.length === 0 ? latest : made;
}
