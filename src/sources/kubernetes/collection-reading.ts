/**
 * The changed objects of one collection that wait to be read. An object that changes again while it waits keeps its
 * place and gets the newest version. A deletion is processed after all earlier changes in the namespace, so that a
 * replacement of the object is in force first. Until then, the previous versions stay in force.
 *
 * Objects that protect workloads are read in the order of their changes, each version, so that a rule that moves from
 * one policy to another is always in force. Only consecutive versions of one object are merged. The order is kept
 * within a namespace and a class of kinds (`reading-class.ts`).
 */
import { eventId, type ListedEvent, type ResourceEvent, type ResourceKey } from '../../resources/index.ts';
import { indexingTime } from '../pacing/indexing-time.ts';
import type { NewTask, ObjectReading } from '../pacing/object-reading.ts';
import { type ReadingClass, readingClassOf } from '../pacing/reading-class.ts';
import { NAMESPACE_BYTES } from '../pacing/waiting-bytes.ts';
import { sizeOf } from './object-quota.ts';
import type { ReceivedObject } from './read-object.ts';

/** A change, or an object that has to be read for it. */
type Change = ResourceEvent | ReceivedObject;

export interface CollectionReadingHandlers {
  read(received: ReceivedObject): ListedEvent;
  /** Changes that were read, in order. */
  report(events: readonly ResourceEvent[]): void;
  /** Changes were lost, because they could not be read or reported. */
  onFailure(error: unknown): void;
}

/** Memory of a change in addition to its object, bytes. */
const CHANGE_BYTES = 512;

export class CollectionReading {
  readonly #name: string;
  readonly #reading: ObjectReading;
  readonly #handlers: CollectionReadingHandlers;
  /** Ids of tasks that wait. */
  readonly #waiting = new Set<string>();
  /** Ids of the newest waiting versions of objects of which each version is read. */
  readonly #newest = new Map<ResourceKey, string>();
  #versions = 0;
  /** Read and not reported yet. */
  #read: ResourceEvent[] = [];
  readonly #report = (): void => this.#reportAll();

  /** @param name unique among the collections of the source */
  constructor(name: string, reading: ObjectReading, handlers: CollectionReadingHandlers) {
    this.#name = name;
    this.#reading = reading;
    this.#handlers = handlers;
  }

  add(changes: readonly Change[]): void {
    this.#reading.add(this.#tasks(changes));
  }

  /** Drops all waiting changes. */
  clear(): void {
    for (const id of this.#waiting) this.#reading.remove(id);
    this.#waiting.clear();
    this.#newest.clear();
    this.#read = [];
  }

  /** Each task depends on those that wait when it is added. */
  *#tasks(changes: readonly Change[]): Iterable<NewTask> {
    for (const change of changes) yield this.#task(change);
  }

  #task(change: Change): NewTask {
    const key = 'object' in change ? change.key : eventId(change);
    const [kind, namespace = ''] = key.split('/', 2);
    const readingClass = readingClassOf(kind);
    const id = this.#idOf(key, readingClass);
    if ('type' in change && change.type === 'delete' && readingClass !== 'security') this.#reading.remove(id);
    this.#waiting.add(id);
    return {
      id,
      place: { namespace, readingClass },
      bytes: () => bytesOf(change),
      read: () => {
        this.#waiting.delete(id);
        if (this.#newest.get(key) === id) this.#newest.delete(key);
        return this.#take(change);
      },
      report: this.#report,
    };
  }

  /** A change replaces a waiting one with the same id, so that outdated versions are not read. */
  #idOf(key: ResourceKey, readingClass: ReadingClass): string {
    const id = `${this.#name} ${key}`;
    if (readingClass !== 'security') return id;
    const before = this.#newest.get(key);
    if (before !== undefined && this.#reading.isLast(before)) return before;
    const version = `${id} ${this.#versions++}`;
    this.#newest.set(key, version);
    return version;
  }

  #take(change: Change): number {
    try {
      const event = 'object' in change ? this.#handlers.read(change) : change;
      this.#read.push(event);
      return event.type === 'set' ? indexingTime(event) : 0;
    } catch (error) {
      this.#handlers.onFailure(error);
      return 0;
    }
  }

  #reportAll(): void {
    const events = this.#read;
    this.#read = [];
    if (events.length === 0) return;
    try {
      this.#handlers.report(events);
    } catch (error) {
      this.#handlers.onFailure(error);
    }
  }
}

/** Approximate memory of a waiting change. An object that is nested too deeply to be measured must not wait. */
function bytesOf(change: Change): number {
  if (!('object' in change)) return CHANGE_BYTES;
  try {
    return CHANGE_BYTES + sizeOf(change.object);
  } catch {
    return NAMESPACE_BYTES + 1;
  }
}
