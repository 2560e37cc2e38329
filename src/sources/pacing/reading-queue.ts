/**
 * Documents that wait to be read. The class whose documents took the least time is next, and within it the namespace
 * whose documents took the least (`namespace-turns.ts`). For each id, only the newest item waits, in the place of the
 * previous one.
 */
import { NamespaceTurns } from './namespace-turns.ts';
import { READING_CLASSES, type ReadingClass, type ReadingPlace } from './reading-class.ts';
import type { ReadingShares } from './reading-shares.ts';

export interface Waiting<T> {
  readonly id: string;
  readonly place: ReadingPlace;
  readonly item: T;
}

export class ReadingQueue<T> {
  readonly #shares: ReadingShares;
  readonly #items = new Map<string, Waiting<T>>();
  readonly #classes: Readonly<Record<ReadingClass, NamespaceTurns>>;

  constructor(shares: ReadingShares) {
    this.#shares = shares;
    this.#classes = {
      security: new NamespaceTurns(shares, false),
      workloads: new NamespaceTurns(shares, false),
      other: new NamespaceTurns(shares, true),
    };
  }

  get size(): number {
    return this.#items.size;
  }

  /** The version that waits. */
  get(id: string): T | undefined {
    return this.#items.get(id)?.item;
  }

  /** Whether the document waits and is the last of its namespace and class. */
  isLast(id: string): boolean {
    const place = this.#items.get(id)?.place;
    return place !== undefined && this.#classes[place.readingClass].isLast(id, place.namespace);
  }

  set(id: string, place: ReadingPlace, item: T): void {
    const before = this.#items.get(id)?.place;
    if (before?.namespace !== place.namespace || before.readingClass !== place.readingClass) this.delete(id);
    this.#items.set(id, { id, place, item });
    this.#classes[place.readingClass].add(id, place.namespace);
  }

  /** Removes a document that waits; does nothing when it does not. */
  delete(id: string): void {
    const place = this.#items.get(id)?.place;
    if (place !== undefined) this.#classes[place.readingClass].delete(id, place.namespace);
    this.#items.delete(id);
  }

  /** Removes and returns the next document that may be read now. Its place has to be charged. */
  next(): Waiting<T> | undefined {
    const { classTimes } = this.#shares;
    const byTime = READING_CLASSES.toSorted((a, b) => classTimes.rankOf(a) - classTimes.rankOf(b));
    for (const readingClass of byTime) {
      const waiting = this.#take(this.#classes[readingClass].next());
      if (waiting === undefined) continue;
      classTimes.serve(readingClass);
      return waiting;
    }
    return undefined;
  }

  /** Removes and returns the document of a namespace that is to be read first, even while the namespace rests. */
  nextOf(namespace: string): Waiting<T> | undefined {
    for (const readingClass of READING_CLASSES) {
      const id = this.#classes[readingClass].firstOf(namespace);
      if (id === undefined) continue;
      this.#classes[readingClass].delete(id, namespace);
      return this.#take(id);
    }
    return undefined;
  }

  /** The time until {@link next} returns a document, ms, if no other is added; undefined when none waits. */
  get waitMs(): number | undefined {
    const waits = Object.values(this.#classes).flatMap(({ waitMs }) => waitMs ?? []);
    return waits.length === 0 ? undefined : Math.min(...waits);
  }

  #take(id: string | undefined): Waiting<T> | undefined {
    if (id === undefined) return undefined;
    const waiting = this.#items.get(id);
    this.#items.delete(id);
    return waiting;
  }
}
