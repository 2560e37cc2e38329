/**
 * Documents of one class that wait to be read. Namespaces take turns according to the time that their documents took
 * (`reading-shares.ts`), so a namespace with many costly documents delays a document of another namespace by at most
 * one of them. Within a namespace, documents are read in the order in which they began to wait.
 */
import { TimeFairQueue } from '../../core/fairness/time-fair-queue.ts';
import type { ReadingShares } from './reading-shares.ts';

/** The documents of a namespace, in order. */
interface Lane {
  readonly ids: Set<string>;
  /** The document that was added last; undefined if it no longer waits. */
  last: string | undefined;
}

export class NamespaceTurns {
  readonly #shares: ReadingShares;
  readonly #canRest: boolean;
  readonly #lanes = new Map<string, Lane>();
  /** Namespaces with waiting documents. */
  readonly #turns: TimeFairQueue<string>;
  /** Namespaces that were passed over because they rest. */
  readonly #resting = new Set<string>();

  /**
   * @param canRest whether a namespace that has used its time must wait
   */
  constructor(shares: ReadingShares, canRest: boolean) {
    this.#shares = shares;
    this.#canRest = canRest;
    this.#turns = new TimeFairQueue(shares.times);
  }

  /** Appends a document. One that waits already keeps its place. */
  add(id: string, namespace: string): void {
    let lane = this.#lanes.get(namespace);
    if (lane === undefined) {
      lane = { ids: new Set(), last: undefined };
      this.#lanes.set(namespace, lane);
      this.#turns.add(namespace, namespace);
    }
    if (!lane.ids.has(id)) lane.last = id;
    lane.ids.add(id);
  }

  /** Whether no other document of the namespace waits behind this one. */
  isLast(id: string, namespace: string): boolean {
    return this.#lanes.get(namespace)?.last === id;
  }

  /** The document of the namespace that has waited longest. */
  firstOf(namespace: string): string | undefined {
    return this.#lanes.get(namespace)?.ids.values().next().value;
  }

  delete(id: string, namespace: string): void {
    const lane = this.#lanes.get(namespace);
    if (lane === undefined) return;
    lane.ids.delete(id);
    if (lane.last === id) lane.last = undefined;
    if (lane.ids.size > 0) return;
    this.#lanes.delete(namespace);
    this.#turns.remove(namespace, namespace);
    this.#resting.delete(namespace);
  }

  /** Removes and returns the next document that may be read now. Its namespace has to be charged. */
  next(): string | undefined {
    this.#resting.clear();
    this.#turns.retry();
    for (;;) {
      const namespace = this.#turns.next((each) => !this.#rests(each));
      if (namespace === undefined) return undefined;
      const id = this.firstOf(namespace);
      if (id === undefined) continue;
      this.delete(id, namespace);
      if (this.#lanes.has(namespace)) this.#turns.add(namespace, namespace);
      return id;
    }
  }

  /** The time until {@link next} returns a document, ms, if no other is added; undefined when none waits. */
  get waitMs(): number | undefined {
    if (this.#lanes.size === 0) return undefined;
    if (this.#turns.size > this.#resting.size) return 0;
    return Math.min(...[...this.#resting].map((namespace) => this.#restOf(namespace)));
  }

  #rests(namespace: string): boolean {
    const rests = this.#restOf(namespace) > 0;
    if (rests) this.#resting.add(namespace);
    return rests;
  }

  #restOf(namespace: string): number {
    return this.#canRest ? this.#shares.restOf(namespace) : 0;
  }
}
