/** The store's data of one source: its documents, replacements of refused ones, and its problems. */
import {
  type AnyResource,
  CLUSTER_KINDS,
  eventId,
  inCluster,
  type Kind,
  keyOf,
  type ResourceEvent,
  type ResourceKey,
  type ResourceList,
  type ResourceProblem,
} from '../resources/index.ts';

/** A document of one source. */
export interface SourceDocument {
  readonly source: string;
  readonly resource: AnyResource;
  /** True when it replaces a refused document: a last good version from disk, or a substitute. */
  readonly replacesRefused: boolean;
}

/** An event of a source, for metrics. Problems have no `kind`. */
export interface CountedEvent {
  readonly effect: 'add' | 'update' | 'delete' | 'invalid' | 'resolved';
  readonly kind: Kind | undefined;
  /** Monotonic ms. */
  readonly eventTime: number;
}

export class SourceDocuments {
  readonly id: string;
  /** The source's cluster, if it is not the program's own. */
  readonly #cluster: string | undefined;
  readonly documents = new Map<ResourceKey, AnyResource>();
  /** Keys of documents that replace refused ones. */
  readonly #replacements = new Set<ResourceKey>();
  /** By id. */
  readonly problems = new Map<string, ResourceProblem>();
  /** Documents that are refused because of an internal error, and that no newer event is about. */
  readonly unapplied = new Map<ResourceKey, ResourceEvent>();

  constructor(id: string, cluster: string | undefined) {
    this.id = id;
    this.#cluster = cluster;
  }

  document(key: ResourceKey): SourceDocument | undefined {
    const resource = this.documents.get(key);
    return resource === undefined
      ? undefined
      : { source: this.id, resource, replacesRefused: this.#replacements.has(key) };
  }

  /** The event decides about its document, whatever could not be applied before. */
  superseded(event: ResourceEvent): void {
    this.unapplied.delete(eventId(event));
    if (event.type === 'invalid' && event.problem.key !== undefined) this.unapplied.delete(event.problem.key);
  }

  /** How an event counts in metrics; called before the event is applied. */
  countedEvent(event: ResourceEvent): CountedEvent {
    const { type, eventTime } = event;
    switch (type) {
      case 'set': {
        const effect = this.documents.has(keyOf(event.resource)) ? 'update' : 'add';
        return { effect, kind: event.resource.kind, eventTime };
      }
      case 'delete':
        return { effect: type, kind: kindOfKey(event.key), eventTime };
      default:
        return { effect: type, kind: undefined, eventTime };
    }
  }

  /** Sets the document of a key (`undefined`: none). @returns the one before */
  put(key: ResourceKey, resource: AnyResource | undefined, held: boolean): AnyResource | undefined {
    const before = this.documents.get(key);
    // Also when the content is equal, because messages should name its current location.
    if (resource === undefined) this.documents.delete(key);
    else this.documents.set(key, resource);
    if (held) this.#replacements.add(key);
    else this.#replacements.delete(key);
    return before;
  }

  /** @returns whether the problem is new or changed */
  refuse(problem: ResourceProblem): boolean {
    if (isSameProblem(this.problems.get(problem.id), problem)) return false;
    this.problems.set(problem.id, problem);
    return true;
  }

  /**
   * @returns the problem that has ended
   */
  resolve(id: string): ResourceProblem | undefined {
    const problem = this.problems.get(id);
    this.problems.delete(id);
    return problem;
  }

  /** The events that lead from the source's current documents to those of a list. */
  changesTo({ events, eventTime, kinds, namespace }: ResourceList): ResourceEvent[] {
    const isListed = (key: ResourceKey | undefined): boolean => {
      if (kinds === undefined && namespace === undefined) return true;
      return (
        key !== undefined &&
        (kinds === undefined || kinds.includes(kindOfKey(key))) &&
        (namespace === undefined || namespace === namespaceOfKey(key))
      );
    };
    const present = new Set<ResourceKey>();
    /** Ids of problems about which the events decide. */
    const decided = new Set<string>();
    for (const event of events) {
      if (event.type === 'set') {
        present.add(keyOf(event.resource));
        decided.add(keyOf(event.resource));
      } else {
        const { id, key, kept = [] } = event.problem;
        decided.add(id);
        for (const each of key === undefined ? kept : [key]) present.add(each);
      }
    }
    // A replacement of a refused document is removed with the problem.
    const gone = [...this.documents.keys()].filter(
      (key) => !present.has(key) && !this.#replacements.has(key) && isListed(key),
    );
    const resolved = [...this.problems.values()].flatMap(({ id, key }) =>
      decided.has(id) || !isListed(key) ? [] : id,
    );
    return [
      ...gone.map((key) => ({ type: 'delete', key, eventTime }) as const),
      ...resolved.map((id) => ({ type: 'resolved', id, eventTime }) as const),
      ...events,
    ];
  }

  /** The events with the source's cluster in resources and keys of CLUSTER_KINDS, where it is not the program's own. */
  inCluster<E extends ResourceEvent>(events: readonly E[]): readonly E[] {
    const cluster = this.#cluster;
    // The type of an event stays the same.
    return cluster === undefined ? events : events.map((event) => eventInCluster(event, cluster) as E);
  }
}

export function kindOfKey(key: ResourceKey): Kind {
  // All keys come from `resourceKey`, and begin with a kind.
  return key.slice(0, key.indexOf('/')) as Kind;
}

export function namespaceOfKey(key: ResourceKey): string {
  return key.split('/', 2)[1] ?? '';
}

function isClusterKind(kind: Kind): boolean {
  return CLUSTER_KINDS.some((each) => each === kind);
}

function eventInCluster(event: ResourceEvent, cluster: string): ResourceEvent {
  // Ids of problems are keys or names of files; a file's name is not a key of such a kind.
  const of = (key: ResourceKey): ResourceKey => (isClusterKind(kindOfKey(key)) ? `${key}/${cluster}` : key);
  switch (event.type) {
    case 'set':
      return isClusterKind(event.resource.kind) ? { ...event, resource: inCluster(event.resource, cluster) } : event;
    case 'delete':
      return { ...event, key: of(event.key) };
    case 'resolved':
      return { ...event, id: of(event.id) };
    case 'invalid': {
      const { id, key, kept } = event.problem;
      const keys = {
        ...(key === undefined ? {} : { key: of(key) }),
        ...(kept === undefined ? {} : { kept: kept.map(of) }),
      };
      return { ...event, problem: { ...event.problem, id: of(id), ...keys } };
    }
  }
}

function isSameProblem(a: ResourceProblem | undefined, b: ResourceProblem): boolean {
  return (
    a !== undefined &&
    a.message === b.message &&
    a.field === b.field &&
    a.origin.file === b.origin.file &&
    a.origin.line === b.origin.line
  );
}
