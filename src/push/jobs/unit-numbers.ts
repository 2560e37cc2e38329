/**
 * Units that a worker has told the main thread before are not told again. Views of different namespaces hold nearly the
 * same, and generation gives all of them the very same resources: what a worker has sent once it names by a number from
 * then on. Of a large unit in which little is another than last time, as after a change of one virtual host, it tells
 * that little.
 *
 * Both sides forget by themselves, each when nobody has the unit any more. A number that the main thread cannot follow
 * costs a repeated job before which the worker is told to forget; so neither has to know what the other still has.
 */
import type { GeneratedResource } from '../../generate/types.ts';
import type { JobAnswer } from '../protocol.ts';
import { HeardReads, SaidReads } from '../reads/index.ts';
import type { EncodedResource } from '../types.ts';

/** A unit without resources needs no number. */
const NO_NUMBER = 0;

interface Said {
  readonly resources: readonly GeneratedResource[];
  readonly number: number;
}

/**
 * Units with the same first resource that are told apart, as of one port that namespaces see differently. The oldest
 * goes first.
 */
const MAX_ALIKE = 24;

/** Smaller units are told as a whole. */
const LARGE = 32;
/** Large units of views that are remembered; the one that was said longest ago goes first. */
const MAX_PLACES = 1024;

/** How a unit is said. */
export interface SaidUnit {
  readonly number: number;
  /** What has to be told: nothing when the unit was said before. */
  readonly resources: readonly GeneratedResource[] | undefined;
  readonly since?: { readonly number: number; readonly gone: readonly string[] };
}

/**
 * The worker's side. Units are the same when they consist of the same objects, which are immutable; so no content is
 * compared.
 */
export class SaidUnits {
  /** By the unit's first resource: what is kept goes when generation lets the resource go. */
  readonly #byFirst = new WeakMap<GeneratedResource, Said[]>();
  readonly reads = new SaidReads();
  /** What large units were when they were last said. */
  readonly #byPlace = new Map<string, Said>();
  #last = NO_NUMBER;

  /** Says the unit that consists of these resources; `place` names it among all units of all views. */
  say(resources: readonly GeneratedResource[], place: string): SaidUnit {
    const [first] = resources;
    if (first === undefined) return { number: NO_NUMBER, resources };
    const alike = this.#byFirst.get(first);
    const known = alike?.findLast((said) => areSame(said.resources, resources));
    const said = known ?? { resources, number: ++this.#last };
    const before = this.#moved(place, said);
    if (known !== undefined) return { number: known.number, resources: undefined };
    if (alike === undefined) this.#byFirst.set(first, [said]);
    else {
      if (alike.length >= MAX_ALIKE) alike.shift();
      alike.push(said);
    }
    return before === undefined ? said : (differing(before, said) ?? said);
  }

  /** Forgets what these places had: their views are gone. */
  forget(isGone: (place: string) => boolean): void {
    for (const place of this.#byPlace.keys()) if (isGone(place)) this.#byPlace.delete(place);
  }

  /** Places of which it is known what they had. */
  get places(): number {
    return this.#byPlace.size;
  }

  /** Notes what a place has now; what it had before is what the main thread still has there. */
  #moved(place: string, said: Said): Said | undefined {
    if (said.resources.length < LARGE) return undefined;
    const before = this.#byPlace.get(place);
    this.#byPlace.delete(place);
    this.#byPlace.set(place, said);
    const [oldest] = this.#byPlace.keys();
    if (oldest !== undefined && this.#byPlace.size > MAX_PLACES) this.#byPlace.delete(oldest);
    return before;
  }
}

/** The unit as a change of the one before; undefined when most of it is new. */
function differing(before: Said, { resources, number }: Said): SaidUnit | undefined {
  const known = new Set(before.resources);
  const news = resources.filter((resource) => !known.has(resource));
  if (news.length > resources.length / 2) return undefined;
  const names = new Set(resources.map(({ name }) => name));
  const gone = before.resources.flatMap(({ name }) => (names.has(name) ? [] : [name]));
  return { number, resources: news, since: { number: before.number, gone } };
}

function areSame(a: readonly GeneratedResource[], b: readonly GeneratedResource[]): boolean {
  return a === b || (a.length === b.length && a.every((each, index) => each === b[index]));
}

/** Units by number, as the answers of one worker name them. */
export type NumberedUnits = ReadonlyMap<number, readonly EncodedResource[]>;

/** Below this many the dead ones are not looked for. */
const MIN_SWEPT = 1024;

/** The main thread's side: one for each worker, begun anew whenever that is told to forget. */
export class HeardUnits {
  readonly reads = new HeardReads();
  readonly #units = new Map<number, WeakRef<readonly EncodedResource[]>>();
  #sweepAbove = MIN_SWEPT;

  /** Units held now, of which some may be gone. */
  get size(): number {
    return this.#units.size;
  }

  hear(number: number, resources: readonly EncodedResource[]): void {
    if (number === NO_NUMBER) return;
    this.#units.set(number, new WeakRef(resources));
    if (this.#units.size <= this.#sweepAbove) return;
    for (const [each, unit] of this.#units) if (unit.deref() === undefined) this.#units.delete(each);
    this.#sweepAbove = Math.max(MIN_SWEPT, 2 * this.#units.size);
  }

  /** The units that these answers name without telling all of them; undefined when one of them is gone. */
  recall(answers: readonly JobAnswer[]): NumberedUnits | undefined {
    const recalled = new Map<number, readonly EncodedResource[]>();
    for (const { units } of answers)
      for (const { number, resources, since } of units) {
        if (resources !== undefined && since === undefined) continue;
        const named = since?.number ?? number;
        const unit = this.#units.get(named)?.deref();
        if (unit === undefined) return undefined;
        recalled.set(named, unit);
      }
    return recalled;
  }
}
