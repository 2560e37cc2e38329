/**
 * The changed objects of one collection that wait to be read. An object that changes again while it waits keeps its
 * place and takes the newest version. A deletion comes after everything of the namespace that changed before it: what
 * replaces the object is in force first. What was in force stays so meanwhile.
 */
import type { ResourceKey } from '../../resources/index.ts';
import { indexingTime } from '../reading/indexing-time.ts';
import type { NewTask, ObjectReading } from '../reading/object-reading.ts';
import type { MemberChange } from './kind-feed.ts';
import type { ReadObject, ReceivedObject } from './read-object.ts';

/** A change that may have to be read. */
export type ReceivedChange =
  | { readonly type: 'set'; readonly item: ReadObject | ReceivedObject }
  | { readonly type: 'deleted'; readonly key: ResourceKey };

export interface CollectionReadingHandlers {
  read(received: ReadObject | ReceivedObject): ReadObject;
  /** Changes that were read, in order. */
  report(changes: readonly MemberChange[]): void;
  /** Changes were lost, because they could not be read or reported. */
  onFailure(error: unknown): void;
}

export class CollectionReading {
  readonly #name: string;
  readonly #reading: ObjectReading;
  readonly #handlers: CollectionReadingHandlers;
  /** Ids of tasks that wait. */
  readonly #waiting = new Set<string>();
  /** Read and not reported yet. */
  #read: MemberChange[] = [];
  readonly #report = (): void => this.#reportAll();

  /** @param name unique among the collections of the source */
  constructor(name: string, reading: ObjectReading, handlers: CollectionReadingHandlers) {
    this.#name = name;
    this.#reading = reading;
    this.#handlers = handlers;
  }

  add(changes: readonly ReceivedChange[]): void {
    this.#reading.add(changes.map((change) => this.#task(change)));
  }

  /** Drops what waits. */
  clear(): void {
    for (const id of this.#waiting) this.#reading.remove(id);
    this.#waiting.clear();
    this.#read = [];
  }

  #task(change: ReceivedChange): NewTask {
    const key = change.type === 'set' ? change.item.key : change.key;
    const id = `${this.#name} ${key}`;
    if (change.type === 'deleted') this.#reading.remove(id);
    this.#waiting.add(id);
    return {
      id,
      namespace: key.split('/', 2)[1] ?? '',
      read: () => {
        this.#waiting.delete(id);
        return this.#take(change);
      },
      report: this.#report,
    };
  }

  #take(change: ReceivedChange): number {
    if (change.type === 'deleted') {
      this.#read.push(change);
      return 0;
    }
    try {
      const item = this.#handlers.read(change.item);
      this.#read.push({ type: 'set', item });
      return item.event.type === 'set' ? indexingTime(item.event) : 0;
    } catch (error) {
      this.#handlers.onFailure(error);
      return 0;
    }
  }

  #reportAll(): void {
    const changes = this.#read;
    this.#read = [];
    if (changes.length === 0) return;
    try {
      this.#handlers.report(changes);
    } catch (error) {
      this.#handlers.onFailure(error);
    }
  }
}
