/**
 * Documents that wait to be read. Namespaces take turns by the time that their documents took (`reading-shares.ts`), so
 * a namespace with many costly documents delays the next document of another one by one of them at most. Of each
 * document only the newest version waits, in the place of the version before: the queue is no longer than there are
 * documents. Within a namespace, documents are read in the order in which they began to wait.
 */
import { TimeFairQueue } from '../../core/fairness/time-fair-queue.ts';
import type { ReadingShares } from './reading-shares.ts';

export interface Waiting<T> {
  readonly id: string;
  readonly namespace: string;
  readonly item: T;
}

export class ReadingQueue<T> {
  readonly #shares: ReadingShares;
  readonly #items = new Map<string, Waiting<T>>();
  /** Ids by namespace, in order. */
  readonly #lanes = new Map<string, Set<string>>();
  /** Namespaces with waiting documents. */
  readonly #turns: TimeFairQueue<string>;
  /** Those of them that were passed over because they rest. */
  readonly #resting = new Set<string>();

  constructor(shares: ReadingShares) {
    this.#shares = shares;
    this.#turns = new TimeFairQueue(shares.times);
  }

  get size(): number {
    return this.#items.size;
  }

  /** The version that waits. */
  get(id: string): T | undefined {
    return this.#items.get(id)?.item;
  }

  set(id: string, namespace: string, item: T): void {
    const before = this.#items.get(id);
    if (before !== undefined && before.namespace !== namespace) this.delete(id);
    this.#items.set(id, { id, namespace, item });
    const lane = this.#lanes.get(namespace);
    if (lane !== undefined) lane.add(id);
    else {
      this.#lanes.set(namespace, new Set([id]));
      this.#turns.add(namespace, namespace);
    }
  }

  /** Removes a document that waits; does nothing when it does not. */
  delete(id: string): void {
    const waiting = this.#items.get(id);
    if (waiting !== undefined) this.#remove(waiting);
  }

  /** Removes and returns the next document that may be read now. Its namespace has to be charged. */
  next(): Waiting<T> | undefined {
    this.#resting.clear();
    this.#turns.retry();
    for (;;) {
      const namespace = this.#turns.next((each) => !this.#rests(each));
      if (namespace === undefined) return undefined;
      const [id = ''] = this.#lanes.get(namespace) ?? [];
      const waiting = this.#items.get(id);
      if (waiting === undefined) continue;
      this.#remove(waiting);
      if (this.#lanes.has(namespace)) this.#turns.add(namespace, namespace);
      return waiting;
    }
  }

  /** In how many ms {@link next} has a document, if no other begins to wait; undefined when none waits. */
  get waitMs(): number | undefined {
    if (this.#items.size === 0) return undefined;
    if (this.#turns.size > this.#resting.size) return 0;
    return Math.min(...[...this.#resting].map((namespace) => this.#shares.restOf(namespace)));
  }

  #rests(namespace: string): boolean {
    const rests = this.#shares.restOf(namespace) > 0;
    if (rests) this.#resting.add(namespace);
    return rests;
  }

  #remove({ id, namespace }: Waiting<T>): void {
    this.#items.delete(id);
    const lane = this.#lanes.get(namespace);
    lane?.delete(id);
    if (lane?.size !== 0) return;
    this.#lanes.delete(namespace);
    this.#turns.remove(namespace, namespace);
    this.#resting.delete(namespace);
  }
}
