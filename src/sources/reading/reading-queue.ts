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
  /** Namespaces with waiting documents that do not rest, as far as is known. */
  readonly #turns: TimeFairQueue<string>;
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
    for (const namespace of this.#resting) {
      if (this.#shares.restOf(namespace) > 0) continue;
      this.#resting.delete(namespace);
      this.#turns.add(namespace, namespace);
    }
    for (;;) {
      const namespace = this.#turns.next();
      if (namespace === undefined) return undefined;
      if (this.#shares.restOf(namespace) > 0) {
        this.#resting.add(namespace);
        continue;
      }
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
    if (this.#turns.size > 0) return 0;
    return Math.min(...[...this.#resting].map((namespace) => this.#shares.restOf(namespace)));
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
