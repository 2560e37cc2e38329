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
import { ReceivedReads, SentReads } from '../reads/index.ts';
import type { EncodedResource } from '../types.ts';

/** A unit without resources needs no number. */
const NO_NUMBER = 0;

interface NumberedUnit {
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
/** Large units of views that are remembered; the one that was sent longest ago goes first. */
const MAX_LARGE_UNITS = 1024;

/** How a unit is sent. */
export interface UnitMessage {
  readonly number: number;
  /** What has to be told: nothing when the unit was sent before. */
  readonly resources: readonly GeneratedResource[] | undefined;
  readonly base?: { readonly number: number; readonly gone: readonly string[] };
}

/**
 * The worker's side. Units are the same when they consist of the same objects, which are immutable; so no content is
 * compared.
 */
export class SentUnits {
  /** By the unit's first resource: what is kept goes when generation lets the resource go. */
  readonly #byFirst = new WeakMap<GeneratedResource, NumberedUnit[]>();
  readonly reads = new SentReads();
  /** What large units were when they were last sent. */
  readonly #byUnit = new Map<string, NumberedUnit>();
  #last = NO_NUMBER;

  /** Says the unit that consists of these resources; `path` names it among all units of all views. */
  send(resources: readonly GeneratedResource[], path: string): UnitMessage {
    const [first] = resources;
    if (first === undefined) return { number: NO_NUMBER, resources };
    const alike = this.#byFirst.get(first);
    const known = alike?.findLast((sent) => areSame(sent.resources, resources));
    const sent = known ?? { resources, number: ++this.#last };
    const before = this.#replace(path, sent);
    if (known !== undefined) return { number: known.number, resources: undefined };
    if (alike === undefined) this.#byFirst.set(first, [sent]);
    else {
      if (alike.length >= MAX_ALIKE) alike.shift();
      alike.push(sent);
    }
    return before === undefined ? sent : (differenceFrom(before, sent) ?? sent);
  }

  /** Forgets what these places had: their views are gone. */
  forget(isGone: (path: string) => boolean): void {
    for (const path of this.#byUnit.keys()) if (isGone(path)) this.#byUnit.delete(path);
  }

  /** Places of which it is known what they had. */
  get largeUnits(): number {
    return this.#byUnit.size;
  }

  /** Notes what a path has now; what it had before is what the main thread still has there. */
  #replace(path: string, sent: NumberedUnit): NumberedUnit | undefined {
    if (sent.resources.length < LARGE) return undefined;
    const before = this.#byUnit.get(path);
    this.#byUnit.delete(path);
    this.#byUnit.set(path, sent);
    const [oldest] = this.#byUnit.keys();
    if (oldest !== undefined && this.#byUnit.size > MAX_LARGE_UNITS) this.#byUnit.delete(oldest);
    return before;
  }
}

/** The unit as a change of the one before; undefined when most of it is new. */
function differenceFrom(before: NumberedUnit, { resources, number }: NumberedUnit): UnitMessage | undefined {
  const known = new Set(before.resources);
  const news = resources.filter((resource) => !known.has(resource));
  if (news.length > resources.length / 2) return undefined;
  const names = new Set(resources.map(({ name }) => name));
  const gone = before.resources.flatMap(({ name }) => (names.has(name) ? [] : [name]));
  return { number, resources: news, base: { number: before.number, gone } };
}

function areSame(a: readonly GeneratedResource[], b: readonly GeneratedResource[]): boolean {
  return a === b || (a.length === b.length && a.every((each, index) => each === b[index]));
}

/** Units by number, as the answers of one worker name them. */
export type NumberedUnits = ReadonlyMap<number, readonly EncodedResource[]>;

/** Below this many the dead ones are not looked for. */
const MIN_SWEPT = 1024;

/** The main thread's side: one for each worker, begun anew whenever that is told to forget. */
export class ReceivedUnits {
  readonly reads = new ReceivedReads();
  readonly #units = new Map<number, WeakRef<readonly EncodedResource[]>>();
  #sweepAbove = MIN_SWEPT;

  /** Units held now, of which some may be gone. */
  get size(): number {
    return this.#units.size;
  }

  receive(number: number, resources: readonly EncodedResource[]): void {
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
      for (const { number, resources, base } of units) {
        if (resources !== undefined && base === undefined) continue;
        const named = base?.number ?? number;
        const unit = this.#units.get(named)?.deref();
        if (unit === undefined) return undefined;
        recalled.set(named, unit);
      }
    return recalled;
  }
}
