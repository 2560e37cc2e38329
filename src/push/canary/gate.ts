/**
 * What the sessions of one view are shown of what was generated for it: all of it, or, while some of it is tried or
 * withheld, other bundles in its placements (`PlacedView.held`). No clock, no session: `engine/canaries.ts` chooses the
 * canaries and decides when a trial ends.
 */
import type { XdsType } from '../../core/xds-types.ts';
import { nextBundle } from '../bundles/index.ts';
import type { WithheldResource } from '../types.ts';
import type { Bundles, HeldBundles } from '../views/index.ts';
import { AcceptedVersions } from './accepted-versions.ts';
import {
  Composer,
  type Composition,
  dependentsOf,
  HELD_TYPES,
  type Names,
  sameBundles,
  TRIED_TYPES,
  without,
  withoutMissingClusters,
} from './composition.ts';
import type { TypedName } from './references.ts';
import { type Outcome, refusalsNeeded, type Trial } from './trial.ts';

/** A placement of the view, as far as the gate is concerned. */
export interface GatedPlacement<S> {
  readonly initialized: boolean;
  readonly bundles: Bundles;
  held: HeldBundles<S> | undefined;
}

/** A resource that some placements have in another version than proxies have accepted. */
export interface Item {
  readonly type: XdsType;
  readonly name: string;
  /** Of the placements. */
  readonly versions: Set<string>;
}

/** A resource that is withheld from all proxies of a view. */
export interface Withheld<S> extends WithheldResource {
  readonly versions: Set<string>;
  /** Connected sessions that rejected it; undefined for a resource that is withheld with another one. */
  readonly refusers: Set<S> | undefined;
  /** Callers that rejected it, even if they have no proxy in the view any more. */
  readonly callers: ReadonlySet<string>;
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

export function itemOf(type: XdsType, name: string): string {
  return `${type}\n${name}`;
}

/**
 * @template P a placement
 * @template S a session
 */
export class Gate<P extends GatedPlacement<S>, S> {
  readonly withheld = new Map<string, Withheld<S>>();
  /** Route configurations of which some virtual hosts are withheld. */
  #partly: readonly Withheld<S>[] = [];
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
    if (other === undefined) return;
    for (const [item, entry] of other.withheld) {
      const refusers = entry.refusers && new Set([...entry.refusers].filter(isHere));
      this.withheld.set(item, { ...entry, versions: new Set(entry.versions), refusers });
    }
  }

  /** The items of the trial. */
  get items(): ReadonlyMap<string, Item> {
    return this.#running?.items ?? NO_ITEMS;
  }

  /** All that is withheld, in whole or in part. */
  entries(): readonly Withheld<S>[] {
    const partly = new Map(this.#partly.map((entry) => [entry.name, entry]));
    return [...this.withheld.values(), ...partly.values()];
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
    this.#showFirst(before, (kept, latest) => {
      const first = names.map((name) => [name, latest.cds.get(name)] as const);
      const cds = nextBundle(
        kept.cds,
        first.filter(([, cluster]) => cluster !== undefined),
      );
      const { changed, removed } = latest.cds.diffFrom(cds);
      const isLatest = changed.length + removed.length === 0;
      return following({ ...kept, cds: isLatest ? latest.cds : cds }, latest, composer);
    });
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
    for (const [item, { type, name, versions, refusers }] of this.withheld) {
      const current = all.some(({ made }) => versions.has(made[type].get(name)?.version ?? ''));
      if (refusers === undefined || !current) this.withheld.delete(item);
    }
    const sides = this.#withholdDependents(all);
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
    const names = namesOf(this.withheld.values());
    for (const side of this.#spliced(this.#sides(before))) {
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
      const [first] = refusals;
      if (tried === undefined || first === undefined) continue;
      const versions = sides.map((side) => side.accepted[tried.type].get(tried.name)?.version);
      this.withheld.set(item, {
        ...tried,
        acceptedVersion: versions.find((each) => each !== undefined),
        proxy: nameOf(first.canary),
        message: first.message,
        sinceMs: nowMs,
        refusers: new Set(refusals.map(({ canary }) => canary)),
        callers: new Set(refusals.map(({ caller }) => caller)),
      });
    }
    this.#show(sides, running.version);
    return [...this.withheld.values()].filter(({ sinceMs, refusers }) => sinceMs === nowMs && refusers !== undefined);
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
    const names = namesOf([...this.withheld.values(), ...this.items.values()]);
    for (const placed of added) {
      const { bundles } = placed;
      const accepted = known ?? without(bundles, names);
      const side = withoutMissingClusters({ made: bundles, latest: bundles, accepted }, names);
      placed.held = this.#held(composer.compose(side, names), undefined);
      if (running?.kept === undefined) continue;
      running.made.set(placed, bundles);
      running.kept.set(placed, accepted);
      const tried = composer.compose(side, namesOf(this.withheld.values()));
      const ofTrial = { bundles: tried, version: running.version, isNew: true };
      placed.held = this.#held(tried, { ...ofTrial, has: (session) => running.trial.has(session) });
    }
  }

  /** A session is gone: what only it has rejected does not count as rejected for ever. */
  left(session: S): void {
    for (const { refusers } of this.withheld.values()) refusers?.delete(session);
  }

  /** Whether everybody is gone who rejected something that is withheld. */
  get hasAbandoned(): boolean {
    return [...this.withheld.values()].some(({ refusers }) => refusers?.size === 0);
  }

  /** Forgets rejections of sessions that are all gone: {@link examine} finds these versions again. */
  forgetAbandoned(): void {
    for (const [item, { refusers }] of this.withheld) if (refusers?.size === 0) this.withheld.delete(item);
  }

  /** Whether too few callers have rejected something that is withheld from the proxies of this many. */
  hasDoubtful(callers: number): boolean {
    const needed = refusalsNeeded(callers);
    return [...this.withheld.values()].some((entry) => entry.refusers !== undefined && entry.callers.size < needed);
  }

  /** Forgets what {@link hasDoubtful} finds: {@link examine} finds these versions again. */
  forgetDoubtful(callers: number): void {
    const needed = refusalsNeeded(callers);
    for (const [item, entry] of this.withheld)
      if (entry.refusers !== undefined && entry.callers.size < needed) this.withheld.delete(item);
  }

  #show(all: readonly Side<P>[], version: number): void {
    const sides = this.#withholdDependents(all);
    const names = namesOf(this.withheld.values());
    const composer = new Composer();
    this.#version = version;
    if (this.withheld.size === 0) this.#completeVersion = version;
    for (const side of sides) {
      const { placed } = side;
      const shown = composer.compose(side, names);
      placed.held = sameBundles(shown, placed.bundles) ? undefined : this.#held(shown, undefined);
    }
  }

  /** Withholds what refers to withheld resources. Returns what may be shown otherwise. */
  #withholdDependents(all: readonly Side<P>[]): readonly Side<P>[] {
    for (const [item, { refusers }] of this.withheld) if (refusers === undefined) this.withheld.delete(item);
    const sides = this.#spliced(all);
    const names = namesOf(this.withheld.values());
    for (const side of sides)
      for (const { type, resource, on } of dependentsOf(side, names)) {
        const item = itemOf(type, resource.name);
        const entry = this.withheld.get(item) ?? this.#dependent(side, type, resource, on);
        entry.versions.add(resource.version);
        this.withheld.set(item, entry);
      }
    return sides;
  }

  #spliced(sides: readonly Side<P>[]): readonly Side<P>[] {
    const names = namesOf(this.withheld.values());
    const spliced = sides.map((side) => withoutMissingClusters(side, names));
    this.#partly = spliced.flatMap((side) =>
      (side.spliced ?? []).map(({ resource, clusters: [cluster = ''], hosts, version }) => ({
        ...this.#dependent(side, 'rds', resource, { type: 'cds', name: cluster }),
        versions: new Set([version]),
        acceptedVersion: resource.version,
        message: `its virtual hosts ${hosts.join(', ')} refer to ${cluster}, which is withheld`,
      })),
    );
    return spliced;
  }

  /** The entry of a resource that is withheld because it refers to another one. */
  #dependent({ accepted }: Side<P>, type: XdsType, { name }: { readonly name: string }, on: TypedName): Withheld<S> {
    const cause = this.withheld.get(itemOf(on.type, on.name));
    return {
      type,
      name,
      versions: new Set(),
      acceptedVersion: accepted[type].get(name)?.version,
      proxy: cause?.proxy ?? '',
      message: `refers to ${on.name}, which is withheld`,
      sinceMs: cause?.sinceMs ?? 0,
      refusers: undefined,
      callers: new Set(),
    };
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

function namesOf(items: Iterable<Pick<Item, 'type' | 'name'>>): Names {
  const names = new Map<XdsType, Set<string>>();
  for (const { type, name } of items) names.set(type, (names.get(type) ?? new Set()).add(name));
  return names;
}
