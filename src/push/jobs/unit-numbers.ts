/**
 * Numbers for units, so that a worker sends each unit to the main thread once. Views of different namespaces have
 * nearly the same content, for which generation returns the same resource objects: a unit that was sent before is
 * referred to by its number. Of a large unit that differs little from the one before, or from that of another view,
 * only the difference is sent: one virtual host, or those with the short names of a namespace.
 *
 * Both sides have weak references to units and drop them independently. If the main thread no longer knows a number,
 * the job is repeated after the worker has discarded its numbers, so neither side has to know the state of the other.
 */
import type { GeneratedResource } from '../../generate/index.ts';
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
 * Maximum number of units with the same first resource that are kept, such as those of a port that differ between
 * namespaces. The oldest is dropped first.
 */
const MAX_ALIKE = 24;

/** Smaller units are sent as a whole. */
const LARGE = 32;
/** Large units kept; the least recently sent is dropped first. */
const MAX_LARGE_UNITS = 1024;

/** A unit as it crosses the thread border. */
export interface UnitMessage {
  readonly number: number;
  /** The resources to send; undefined when the unit was sent before. */
  readonly resources: readonly GeneratedResource[] | undefined;
  readonly base?: { readonly number: number; readonly gone: readonly string[] };
}

/**
 * The worker's side. Units are equal when they consist of the same objects, which are immutable; no content is
 * compared.
 */
export class SentUnits {
  /** By the unit's first resource: entries are freed when generation frees the resource. */
  readonly #byFirst = new WeakMap<GeneratedResource, NumberedUnit[]>();
  readonly reads = new SentReads();
  /** Large units by path, as they were last sent. */
  readonly #byUnit = new Map<string, NumberedUnit>();
  /** The path of the large unit of each kind that was sent last. */
  readonly #lastOfKind = new Map<string, string>();
  #last = NO_NUMBER;

  /**
   * Numbers the unit of these resources and returns the resources to send.
   * @param path names it among all units of all views
   * @param kind that of units of other views with nearly the same resources; by default, there are none
   */
  send(resources: readonly GeneratedResource[], path: string, kind = path): UnitMessage {
    const [first] = resources;
    if (first === undefined) return { number: NO_NUMBER, resources };
    const alike = this.#byFirst.get(first);
    const known = alike?.findLast((sent) => areSame(sent.resources, resources));
    const sent = known ?? { resources, number: ++this.#last };
    const before = this.#replace(path, kind, sent);
    if (known !== undefined) return { number: known.number, resources: undefined };
    if (alike === undefined) this.#byFirst.set(first, [sent]);
    else {
      if (alike.length >= MAX_ALIKE) alike.shift();
      alike.push(sent);
    }
    return before === undefined ? sent : (differenceFrom(before, sent) ?? sent);
  }

  /** Drops the units of these paths, whose views no longer exist. */
  forget(isGone: (path: string) => boolean): void {
    for (const path of this.#byUnit.keys()) if (isGone(path)) this.#byUnit.delete(path);
    for (const [kind, path] of this.#lastOfKind) if (!this.#byUnit.has(path)) this.#lastOfKind.delete(kind);
  }

  /** Number of large units kept. */
  get largeUnits(): number {
    return this.#byUnit.size;
  }

  /** Number of kinds that these are of. */
  get kinds(): number {
    return this.#lastOfKind.size;
  }

  /** Sets the unit of a path. Returns the one before, or one of its kind, which the main thread still has. */
  #replace(path: string, kind: string, sent: NumberedUnit): NumberedUnit | undefined {
    if (sent.resources.length < LARGE) return undefined;
    const before = this.#byUnit.get(path) ?? this.#byUnit.get(this.#lastOfKind.get(kind) ?? '');
    this.#byUnit.delete(path);
    this.#byUnit.set(path, sent);
    this.#lastOfKind.set(kind, path);
    if (this.#byUnit.size > MAX_LARGE_UNITS) this.#dropOldest();
    return before;
  }

  #dropOldest(): void {
    const [oldest] = this.#byUnit.keys();
    if (oldest !== undefined) this.forget((path) => path === oldest);
  }
}

/** The unit as a difference from the one before; undefined when most of it is new. */
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

/** Units by the numbers in the answers of one worker. */
export type NumberedUnits = ReadonlyMap<number, readonly EncodedResource[]>;

/** With fewer entries, freed ones are not searched for. */
const MIN_SWEPT = 1024;

/** The state of the main thread: one object for each worker, replaced when the worker discards its numbers. */
export class ReceivedUnits {
  readonly reads = new ReceivedReads();
  readonly #units = new Map<number, WeakRef<readonly EncodedResource[]>>();
  #sweepAbove = MIN_SWEPT;

  /** Number of entries, including those of freed units. */
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

  /** The units that these answers refer to by number; undefined if one of them was freed. */
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
