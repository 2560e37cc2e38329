/** What the store has of one source: its documents, those that hold in the place of refused ones, and its problems. */
import {
  type AnyResource,
  CLUSTER_KINDS,
  inCluster,
  type Kind,
  keyOf,
  type ResourceEvent,
  type ResourceKey,
  type ResourceList,
  type ResourceProblem,
} from '../resources/index.ts';

/** A document as the store has it of one source. */
export interface SourceDocument {
  readonly source: string;
  readonly resource: AnyResource;
  /** True where it holds in the place of a refused document. */
  readonly held: boolean;
}

/** What a source told, for counting. `kind`: of resources, not of problems. */
export interface ToldEvent {
  readonly effect: 'add' | 'update' | 'delete' | 'invalid' | 'resolved';
  readonly kind: Kind | undefined;
  /** Monotonic ms. */
  readonly eventTime: number;
}

export class SourceDocuments {
  readonly id: string;
  /** Where it is not the program's own. */
  readonly #cluster: string | undefined;
  readonly documents = new Map<ResourceKey, AnyResource>();
  /** Keys of documents that hold in the place of refused ones. */
  readonly #held = new Set<ResourceKey>();
  /** By id. */
  readonly problems = new Map<string, ResourceProblem>();

  constructor(id: string, cluster: string | undefined) {
    this.id = id;
    this.#cluster = cluster;
  }

  document(key: ResourceKey): SourceDocument | undefined {
    const resource = this.documents.get(key);
    return resource === undefined ? undefined : { source: this.id, resource, held: this.#held.has(key) };
  }

  /** What an event is, before it is taken. */
  told(event: ResourceEvent): ToldEvent {
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

  /** Makes this the document of a key (`undefined`: none). @returns the one before */
  put(key: ResourceKey, resource: AnyResource | undefined, held: boolean): AnyResource | undefined {
    const before = this.documents.get(key);
    // Also where the content is the same: messages should name the place it is in now.
    if (resource === undefined) this.documents.delete(key);
    else this.documents.set(key, resource);
    if (held) this.#held.add(key);
    else this.#held.delete(key);
    return before;
  }

  /** @returns whether the problem says something new */
  refuse(problem: ResourceProblem): boolean {
    if (isSameProblem(this.problems.get(problem.id), problem)) return false;
    this.problems.set(problem.id, problem);
    return true;
  }

  /** @returns the problem that is over */
  resolve(id: string): ResourceProblem | undefined {
    const problem = this.problems.get(id);
    this.problems.delete(id);
    return problem;
  }

  /** The changes that make of what the source told before what it lists now. */
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
    const refused = new Set<string>();
    for (const event of events) {
      if (event.type === 'set') present.add(keyOf(event.resource));
      else {
        const { id, key, kept = [] } = event.problem;
        refused.add(id);
        for (const each of key === undefined ? kept : [key]) present.add(each);
      }
    }
    // What holds in the place of a refused document goes with its problem.
    const gone = [...this.documents.keys()].filter((key) => !present.has(key) && !this.#held.has(key) && isListed(key));
    const resolved = [...this.problems.values()].flatMap(({ id, key }) =>
      refused.has(id) || !isListed(key) ? [] : id,
    );
    return [
      ...gone.map((key) => ({ type: 'delete', key, eventTime }) as const),
      ...resolved.map((id) => ({ type: 'resolved', id, eventTime }) as const),
      ...events,
    ];
  }

  /**
   * Events whose resources and keys of CLUSTER_KINDS name the source's cluster, where it is another one than the
   * program's.
   */
  inCluster<E extends ResourceEvent>(events: readonly E[]): readonly E[] {
    const cluster = this.#cluster;
    // The event of one type is made into one of the same type.
    return cluster === undefined ? events : events.map((event) => eventInCluster(event, cluster) as E);
  }
}

export function kindOfKey(key: ResourceKey): Kind {
  // Keys are made by `resourceKey` alone, whose first part is a kind.
  return key.slice(0, key.indexOf('/')) as Kind;
}

export function namespaceOfKey(key: ResourceKey): string {
  return key.split('/', 2)[1] ?? '';
}

function isClusterKind(kind: Kind): boolean {
  return CLUSTER_KINDS.some((each) => each === kind);
}

function eventInCluster(event: ResourceEvent, cluster: string): ResourceEvent {
  // Identities of problems are keys or names of files; these are no keys of such kinds.
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
