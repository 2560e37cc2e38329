/** Documents that a translator derives, and their changes. */
import {
  type AnyResource,
  type ContentOf,
  fingerprintOf,
  keyOf,
  type MeshKind,
  type ResourceChange,
  type ResourceKey,
  type ResourceMeta,
} from '../resources/index.ts';

/** The source of derived documents, for messages. */
const DERIVED_SOURCE = 'derived';

export interface DerivedName {
  readonly namespace: string;
  readonly name: string;
  /** Milliseconds since the epoch, of the document that it is derived from. */
  readonly created?: number | undefined;
}

/**
 * A derived document.
 * @param from the document that it is derived from, for messages @param hashed the input of the fingerprint: the
 * content, or a smaller value that determines it
 */
export function deriveResource<K extends MeshKind>(
  kind: K,
  { namespace, name, created }: DerivedName,
  content: ContentOf<K>,
  from: ResourceKey,
  hashed: object = withHashedRoutes(content),
): AnyResource {
  const meta: ResourceMeta = {
    name,
    namespace,
    labels: {},
    annotations: {},
    ...(created === undefined ? {} : { created }),
  };
  const origin = { source: DERIVED_SOURCE, file: from };
  // The type parameters guarantee that kind and content fit together.
  const fingerprint = fingerprintOf(kind, meta, hashed);
  return { kind, meta, content, origin, fingerprint } as AnyResource;
}

/** From this number on, a change of one route must not require hashing all routes. */
const MANY_ROUTES = 32;
const NO_META: ResourceMeta = { name: '', namespace: '', labels: {}, annotations: {} };
/** Hashes of routes and of lists of routes, which are immutable: a change replaces a few of them. */
const routeHashes = new WeakMap<object, string>();

/** The content of a VirtualService with many HTTP routes, with a hash in place of these. */
function withHashedRoutes(content: object): object {
  if (!('http' in content) || !Array.isArray(content.http) || content.http.length < MANY_ROUTES) return content;
  const routes: readonly object[] = content.http;
  return { ...content, http: hashOf(routes, () => routes.map((route) => hashOf(route, () => route))) };
}

function hashOf(value: object, hashed: () => unknown): string {
  const known = routeHashes.get(value);
  if (known !== undefined) return known;
  const hash = fingerprintOf('VirtualService', NO_META, hashed());
  routeHashes.set(value, hash);
  return hash;
}

/** The derived documents of a translator by their owner, which they are derived from. */
export class DerivedDocuments {
  readonly #all = new Map<ResourceKey, AnyResource>();
  readonly #byOwner = new Map<string, ReadonlySet<ResourceKey>>();
  /** The documents of changed keys at the last {@link take}. */
  readonly #before = new Map<ResourceKey, AnyResource | undefined>();

  /**
   * Replaces the derived documents of an owner. @param owner any string; no two owners may derive the same key
   */
  replace(owner: string, documents: readonly AnyResource[]): void {
    const known = this.#byOwner.get(owner);
    const next = new Map(documents.map((document) => [keyOf(document), document]));
    for (const key of known ?? []) if (!next.has(key)) this.#set(key, undefined);
    for (const [key, document] of next) this.#set(key, document);
    if (next.size === 0) this.#byOwner.delete(owner);
    else this.#byOwner.set(owner, new Set(next.keys()));
  }

  get all(): ReadonlyMap<ResourceKey, AnyResource> {
    return this.#all;
  }

  /** The changes since the last call, in the order of their keys. */
  take(): ResourceChange[] {
    const changes = [...this.#before].flatMap(([key, before]): ResourceChange[] => {
      const after = this.#all.get(key);
      return before?.fingerprint === after?.fingerprint ? [] : [{ key, before, after }];
    });
    this.#before.clear();
    return changes.sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  #set(key: ResourceKey, document: AnyResource | undefined): void {
    const before = this.#all.get(key);
    if (before?.fingerprint === document?.fingerprint) return;
    if (!this.#before.has(key)) this.#before.set(key, before);
    if (document === undefined) this.#all.delete(key);
    else this.#all.set(key, document);
  }
}
