/**
 * What of a bundle's difference concerns a subscription: computed once per (newer bundle, older bundle, name set) and shared by
 * every stream at that point, with the encoded fields joined into large buffers that are written as they are.
 */
import type { Bundle, EncodedResource } from '../push/types.ts';
import { deltaField, sotwField } from './codec.ts';
import { type NameSet, nameSetOf } from './name-set.ts';
import { EMPTY_HASH, hashText, minus, plus, type SetHash } from './set-hash.ts';
import { cached, type WeakCache } from './weak-cache.ts';

/** What a stream wants of a type. */
export interface Interest {
  readonly wildcard: boolean;
  /** Names asked for explicitly, besides the wildcard. */
  readonly names: NameSet;
}

export function covers(interest: Interest, name: string): boolean {
  return interest.wildcard || interest.names.has(name);
}

/** Resources in lists that streams share. */
export class ResourceLists {
  readonly lists: readonly (readonly EncodedResource[])[];
  readonly length: number;

  constructor(lists: readonly (readonly EncodedResource[])[]) {
    this.lists = lists;
    this.length = lists.reduce((sum, list) => sum + list.length, 0);
  }

  flat(): readonly EncodedResource[] {
    const [only] = this.lists;
    return this.lists.length === 1 && only !== undefined ? only : this.lists.flat();
  }
}

const refs = new WeakMap<readonly EncodedResource[], NameSet>();

/** What these resources refer to. */
export function refsOf(resources: readonly EncodedResource[]): NameSet {
  let names = refs.get(resources);
  if (names === undefined) {
    names = nameSetOf(resources.flatMap((resource) => resource.refs));
    refs.set(resources, names);
  }
  return names;
}

const hosts = new WeakMap<Bundle, Map<string, readonly string[]>>();

/** Names of the virtual hosts `<route configuration>/<host>` in these bundles. */
export function hostsOf(routes: string, bundles: readonly Bundle[]): readonly string[] {
  return bundles.flatMap((bundle) => {
    const known = hosts.get(bundle) ?? new Map<string, readonly string[]>();
    hosts.set(bundle, known);
    let names = known.get(routes);
    if (names === undefined) {
      names = bundle.resources().flatMap(({ name }) => (name.slice(0, name.lastIndexOf('/')) === routes ? [name] : []));
      known.set(routes, names);
    }
    return names;
  });
}

/** Part of a difference that a subscription sees. */
export class Selection {
  readonly changed: readonly EncodedResource[];
  readonly removed: readonly string[];
  #delta: Joined | undefined;
  #sotw: Joined | undefined;

  constructor(changed: readonly EncodedResource[], removed: readonly string[]) {
    this.changed = changed;
    this.removed = removed;
  }

  deltaBody(): readonly Uint8Array[] {
    this.#delta ??= joined(this.changed, deltaField);
    return this.#delta.body;
  }

  sotwBody(): readonly Uint8Array[] {
    this.#sotw ??= joined(this.changed, sotwField);
    return this.#sotw.body;
  }
}

interface Joined {
  readonly resources: readonly EncodedResource[];
  readonly body: readonly Uint8Array[];
}

type Field = (resource: EncodedResource) => Uint8Array;

/** Joined bodies in use, by what is in them: views whose content is equal hold the same resources. The key is the first of them. */
const bodies = new Map<Field, WeakMap<EncodedResource, WeakRef<Joined>>>();

function isSame<T>(a: readonly T[], b: readonly T[]): boolean {
  return a.length === b.length && a.every((each, index) => each === b[index]);
}

/** One resource needs no copy; many are joined once, because thousands of small chunks cost more to write than one buffer. */
function joined(resources: readonly EncodedResource[], field: Field): Joined {
  const [first] = resources;
  if (first === undefined) return { resources, body: [] };
  if (resources.length === 1) return { resources, body: [field(first)] };
  const byFirst = bodies.get(field) ?? new WeakMap<EncodedResource, WeakRef<Joined>>();
  bodies.set(field, byFirst);
  const known = byFirst.get(first)?.deref();
  if (known !== undefined && isSame(known.resources, resources)) return known;
  const made = { resources, body: [Buffer.concat(resources.map(field))] };
  byFirst.set(first, new WeakRef(made));
  return made;
}

/** Fields below this size are cheaper to copy than to write as chunks of their own. */
const COPY_BELOW_BYTES = 2048;

/** The fields of resources that this stream alone needs together: small ones side by side in new buffers, large ones as they are. */
export function chunked(
  resources: readonly EncodedResource[],
  field: (resource: EncodedResource) => Uint8Array,
): readonly Uint8Array[] {
  const chunks: Uint8Array[] = [];
  let small: Uint8Array[] = [];
  const flush = (): void => {
    const [only] = small;
    if (only !== undefined) chunks.push(small.length === 1 ? only : Buffer.concat(small));
    small = [];
  };
  for (const resource of resources) {
    const bytes = field(resource);
    if (bytes.length < COPY_BELOW_BYTES) small.push(bytes);
    else {
      flush();
      chunks.push(bytes);
    }
  }
  flush();
  return chunks;
}

/** Stands for "no older bundle" and "wildcard" as keys of weak maps. */
const NOTHING = {};
const EVERYTHING = {};

const selections = new WeakMap<Bundle, WeakCache<Selection>>();

/** What `interest` sees of the way from `previous` (same view, or undefined: nothing) to `bundle`. */
export function select(bundle: Bundle, previous: Bundle | undefined, interest: Interest): Selection {
  let cache = selections.get(bundle);
  if (cache === undefined) {
    cache = new WeakMap();
    selections.set(bundle, cache);
  }
  return cached(cache, previous ?? NOTHING, interest.wildcard ? EVERYTHING : interest.names, () => {
    if (previous === undefined && !interest.wildcard) return new Selection(pick(bundle, interest.names), []);
    const diff = bundle.diffFrom(previous);
    if (interest.wildcard) return new Selection(diff.changed, diff.removed);
    return new Selection(
      diff.changed.filter((resource) => interest.names.has(resource.name)),
      diff.removed.filter((name) => interest.names.has(name)),
    );
  });
}

/** Resources of the bundle with these names, in the names' order of asking; walks whichever is smaller. */
function pick(bundle: Bundle, names: NameSet): EncodedResource[] {
  if (names.size > bundle.size) return bundle.resources().filter((resource) => names.has(resource.name));
  const found: EncodedResource[] = [];
  for (const name of names.names) {
    const resource = bundle.get(name);
    if (resource !== undefined) found.push(resource);
  }
  return found;
}

export function hashResource(name: string, version: string): SetHash {
  return hashText(`${name}\n${version}`);
}

const sums: WeakCache<SetHash> = new WeakMap();

/**
 * Hash of what `interest` sees of the bundle. When the same is known of `previous`, only the difference is hashed: a changed
 * endpoint costs one hash, not one per service.
 */
export function contentHash(bundle: Bundle, interest: Interest, previous?: Bundle): SetHash {
  const key = interest.wildcard ? EVERYTHING : interest.names;
  return cached(sums, bundle, key, () => {
    const before = previous === undefined ? undefined : sums.get(previous)?.get(key);
    let hash = before ?? EMPTY_HASH;
    const { changed, removed } = select(bundle, before === undefined ? undefined : previous, interest);
    for (const resource of changed) hash = plus(hash, hashResource(resource.name, resource.version));
    if (before === undefined || previous === undefined) return hash;
    for (const name of [...changed.map((resource) => resource.name), ...removed]) {
      const old = previous.get(name);
      if (old !== undefined) hash = minus(hash, hashResource(name, old.version));
    }
    return hash;
  });
}
