/**
 * The documents that the translation reads. The reads of each computation are recorded, so that a change only repeats
 * the computations that have read what changed.
 */
import {
  type AnyResource,
  type Kind,
  type ObjectAccess,
  type Resource,
  type ResourceKey,
  resourceKey,
  SERVICE_API_KINDS,
} from '../../resources/index.ts';

/** Something that a computation can read: the key of a document, or a name such as `grants/<namespace>`. */
export type Fact = string;

const READ_KINDS: ReadonlySet<Kind> = new Set<Kind>([
  ...SERVICE_API_KINDS,
  'ConfigMap',
  'Namespace',
  'Secret',
  'Service',
]);

export class Documents {
  readonly #all = new Map<ResourceKey, AnyResource>();
  /** Namespace → keys of its ReferenceGrants. */
  readonly #grants = new Map<string, Set<ResourceKey>>();
  readonly #readers = new Map<Fact, Set<string>>();
  readonly #reads = new Map<string, ReadonlySet<Fact>>();
  /** Facts that lost their last reader since the last {@link takeUnread}; some may have new readers. */
  readonly #unread = new Set<Fact>();
  #recording: Set<Fact> | undefined;
  /** The access to objects that are read by name, by `Kind/name`. */
  readonly #access = new Map<string, ObjectAccess>();
  readonly #areReadByName: boolean;

  /**
   * @param areReadByName whether Secrets are read by name, and unknown until `setAccess` is called for a name
   */
  constructor(areReadByName = false) {
    this.#areReadByName = areReadByName;
  }

  /** @returns the fact that changed */
  setAccess(kind: Kind, name: string, access: ObjectAccess): Fact | undefined {
    const fact = accessFact(kind, name);
    if ((this.#access.get(fact) ?? 'pending') === access) return undefined;
    if (access === 'pending') this.#access.delete(fact);
    else this.#access.set(fact, access);
    return fact;
  }

  /** The access to the documents of a name. With access, a document that is not here does not exist. */
  accessTo(kind: Kind, name: string): ObjectAccess {
    const fact = accessFact(kind, name);
    this.note(fact);
    return this.#areReadByName ? (this.#access.get(fact) ?? 'pending') : 'read';
  }

  /** @returns the facts that changed; none for a document that is not read */
  put(key: ResourceKey, resource: AnyResource | undefined): readonly Fact[] {
    const kind = resource?.kind ?? (key.slice(0, key.indexOf('/')) as Kind);
    if (!READ_KINDS.has(kind)) return [];
    if (resource === undefined) this.#all.delete(key);
    else this.#all.set(key, resource);
    if (kind !== 'ReferenceGrant') return [key];
    const namespace = key.split('/')[1] ?? '';
    const grants = this.#grants.get(namespace) ?? new Set();
    if (resource === undefined) grants.delete(key);
    else grants.add(key);
    if (grants.size === 0) this.#grants.delete(namespace);
    else this.#grants.set(namespace, grants);
    return [grantsFact(namespace)];
  }

  get<K extends Kind>(kind: K, namespace: string, name: string): Resource<K> | undefined {
    const key = resourceKey(kind, namespace, name);
    this.note(key);
    // The kind in the key determines the type of the resource.
    return this.#all.get(key) as Resource<K> | undefined;
  }

  grantsOf(namespace: string): readonly Resource<'ReferenceGrant'>[] {
    this.note(grantsFact(namespace));
    return [...(this.#grants.get(namespace) ?? [])].flatMap((key) => {
      const grant = this.#all.get(key);
      return grant?.kind === 'ReferenceGrant' ? [grant as Resource<'ReferenceGrant'>] : [];
    });
  }

  note(fact: Fact): void {
    this.#recording?.add(fact);
  }

  /** Runs a computation of this name; what it reads replaces what it read before. */
  reading<T>(reader: string, compute: () => T): T {
    const outer = this.#recording;
    const facts = new Set<Fact>();
    this.#recording = facts;
    try {
      return compute();
    } finally {
      this.#recording = outer;
      this.#replaceReads(reader, facts);
    }
  }

  /** Forgets a computation that no longer exists. */
  forget(reader: string): void {
    this.#replaceReads(reader, new Set());
  }

  readersOf(fact: Fact): Iterable<string> {
    return this.#readers.get(fact) ?? [];
  }

  /** Facts that lost all readers since the last call. */
  takeUnread(): readonly Fact[] {
    const facts = [...this.#unread].filter((fact) => !this.#readers.has(fact));
    this.#unread.clear();
    return facts;
  }

  #replaceReads(reader: string, facts: ReadonlySet<Fact>): void {
    for (const fact of this.#reads.get(reader) ?? []) {
      if (facts.has(fact)) continue;
      const readers = this.#readers.get(fact);
      readers?.delete(reader);
      if (readers?.size !== 0) continue;
      this.#readers.delete(fact);
      this.#unread.add(fact);
    }
    for (const fact of facts) {
      const readers = this.#readers.get(fact);
      if (readers === undefined) this.#readers.set(fact, new Set([reader]));
      else readers.add(reader);
    }
    if (facts.size === 0) this.#reads.delete(reader);
    else this.#reads.set(reader, facts);
  }
}

function accessFact(kind: Kind, name: string): Fact {
  return `access/${kind}/${name}`;
}

function grantsFact(namespace: string): Fact {
  return `grants/${namespace}`;
}
