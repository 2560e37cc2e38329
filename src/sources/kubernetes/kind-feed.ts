/**
 * Reports the documents of one kind for a source (of one namespace, if only some namespaces are read). Several
 * collections can have the kind: `VirtualService` of `networking.mesh.io` and of `networking.istio.io`. If two
 * collections have a document of one name, that of the first collection is in force; the other is reported as a
 * problem. A list of the whole kind is reported once, when all collections have been listed, because documents that it
 * lacks are deleted. After that, only the differences of each collection are reported, so that listing one of 2,000
 * Secrets costs no more than that Secret.
 */
import {
  eventId,
  type Kind,
  type ListedEvent,
  type ResourceEvent,
  type ResourceKey,
  type ResourceProblem,
} from '../../resources/index.ts';
import type { Applied, OrderedSink } from './ordered-sink.ts';

/** A collection of the kind. */
export interface FeedMember {
  onList(events: readonly ListedEvent[]): Applied;
  onChanges(events: readonly ResourceEvent[]): Applied;
  /** The last report about an object; undefined if it is not kept. */
  known(key: ResourceKey): ListedEvent | undefined;
  /** Called if the collection cannot be read at all: the list of the kind does not wait for it. */
  skip(): void;
  /** Called when the collection no longer exists: its documents are deleted. */
  remove(): Applied;
}

interface Member {
  readonly rank: number;
  readonly name: string;
  /** `unread` until the first list. */
  state: 'unread' | 'skipped' | 'listed';
  /** Kept only if several collections can have the kind. */
  readonly items: Map<ResourceKey, ListedEvent>;
}

export interface KindFeedOptions {
  readonly source: string;
  readonly kind: Kind;
  /** Left out: all namespaces. */
  readonly namespace?: string;
  /** Whether several collections can hold this kind. */
  readonly isShared: boolean;
  readonly now: () => number;
  readonly sink: Pick<OrderedSink, 'apply' | 'replace'>;
}

export class KindFeed {
  readonly #options: KindFeedOptions;
  /** In order of rank. */
  #members: Member[] = [];
  /** Keys with a reported problem because several collections have them. */
  #duplicates = new Set<ResourceKey>();
  /** Whether the list of the whole kind was reported: from then on, only differences are reported. */
  #isReported = false;

  constructor(options: KindFeedOptions) {
    this.#options = options;
  }

  /** @param rank of the collection: the lowest counts first */
  add(name: string, rank: number): FeedMember {
    const member: Member = { name, rank, state: 'unread', items: new Map() };
    this.#members = [...this.#members, member].sort((a, b) => a.rank - b.rank || (a.name < b.name ? -1 : 1));
    return {
      onList: (events) => this.#onList(member, events),
      onChanges: (events) => this.#onChanges(member, events),
      known: (key) => member.items.get(key),
      skip: () => this.#skip(member),
      remove: () => this.#remove(member),
    };
  }

  #onList(member: Member, events: readonly ListedEvent[]): Applied {
    member.state = 'listed';
    if (!this.#options.isShared) return this.#replace(events);
    const before = [...member.items.keys()];
    member.items.clear();
    for (const event of events) member.items.set(eventId(event), event);
    return this.#report(new Set([...before, ...member.items.keys()]));
  }

  #onChanges(member: Member, events: readonly ResourceEvent[]): Applied {
    if (!this.#options.isShared) return this.#options.sink.apply(events);
    const keys = new Set<ResourceKey>();
    let eventTime = this.#options.now();
    for (const event of events) {
      const key = eventId(event);
      keys.add(key);
      eventTime = Math.min(eventTime, event.eventTime);
      if (event.type === 'set' || event.type === 'invalid') member.items.set(key, event);
      else member.items.delete(key);
    }
    return this.#apply(keys, eventTime);
  }

  #skip(member: Member): void {
    if (member.state === 'unread') member.state = 'skipped';
  }

  #remove(member: Member): Applied {
    this.#members = this.#members.filter((each) => each !== member);
    return this.#report(new Set(member.items.keys()));
  }

  /** Reports the list of the kind when all members have been listed; later, what is in force for each of the keys. */
  #report(keys: ReadonlySet<ResourceKey>): Applied {
    if (this.#isReported || !this.#members.every(({ state }) => state === 'listed')) return this.#apply(keys);
    return this.#replaceMerged();
  }

  #replaceMerged(): Applied {
    const keys = new Set(this.#members.flatMap(({ items }) => [...items.keys()]));
    const events: ListedEvent[] = [];
    this.#duplicates = new Set();
    for (const key of keys) {
      const [first, second] = this.#documents(key);
      if (first !== undefined) events.push(first.event);
      if (first === undefined || second === undefined) continue;
      this.#duplicates.add(key);
      events.push({ type: 'invalid', problem: duplicate(key, first, second), eventTime: this.#options.now() });
    }
    return this.#reported(() => {
      const applied = this.#replace(events);
      // Later reports wait for it.
      this.#isReported = true;
      return applied;
    });
  }

  #replace(events: readonly ListedEvent[]): Applied {
    const { kind, namespace, sink, now } = this.#options;
    return sink.replace({ events, eventTime: now(), kinds: [kind], ...(namespace === undefined ? {} : { namespace }) });
  }

  /** Reports what is in force for each of the keys. */
  #apply(keys: ReadonlySet<ResourceKey>, eventTime = this.#options.now()): Applied {
    const events = [...keys].flatMap((key): ResourceEvent[] => {
      const [first, second] = this.#documents(key);
      if (first === undefined) return [...this.#resolved(key, eventTime), { type: 'delete', key, eventTime }];
      if (second === undefined) return [...this.#resolved(key, eventTime), first.event];
      this.#duplicates.add(key);
      return [first.event, { type: 'invalid', problem: duplicate(key, first, second), eventTime }];
    });
    return events.length === 0 ? undefined : this.#reported(() => this.#options.sink.apply(events));
  }

  /** After a failure, the state of the sink is unknown: the whole kind is reported with the next list. */
  #reported(report: () => Applied): Applied {
    const failed = (error: unknown): never => {
      this.#isReported = false;
      throw error;
    };
    try {
      return report()?.catch(failed);
    } catch (error) {
      return failed(error);
    }
  }

  #resolved(key: ResourceKey, eventTime: number): ResourceEvent[] {
    return this.#duplicates.delete(key) ? [{ type: 'resolved', id: duplicateId(key), eventTime }] : [];
  }

  #documents(key: ResourceKey): Document[] {
    return this.#members.flatMap(({ name, items }) => {
      const event = items.get(key);
      return event === undefined ? [] : [{ name, event }];
    });
  }
}

interface Document {
  readonly name: string;
  readonly event: ListedEvent;
}

function duplicateId(key: ResourceKey): string {
  return `${key}#duplicate`;
}

function duplicate(key: ResourceKey, first: Document, second: Document): ResourceProblem {
  const { event } = second;
  const { origin } = event.type === 'set' ? event.resource : event.problem;
  const message = `expected one document for ${key}; that of ${first.name} is in force, not that of ${second.name}`;
  return { id: duplicateId(key), key, origin, field: 'metadata.name', message };
}
