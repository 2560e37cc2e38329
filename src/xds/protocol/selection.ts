/**
 * The part of a bundle's difference that a subscription covers: computed once per (newer bundle, older bundle, name
 * set) and shared by all streams in that state. The encoded fields are joined into large buffers that are written as
 * they are.
 */
import { type Memos, type WeakMemo, WeakPairMemo } from '../../core/memo.ts';
import type { Bundle, EncodedResource } from '../../push/index.ts';
import type { Interest } from './interest.ts';
import type { NameSet, NameSets } from './name-set.ts';
import { fieldOf, type Mode } from './responses.ts';
import { EMPTY_HASH, hashText, minus, plus, type SetHash } from './set-hash.ts';

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

/** The part of a difference that a subscription covers. */
export class Selection {
  readonly changed: readonly EncodedResource[];
  readonly removed: readonly string[];
  readonly #bodies: Bodies;
  /** Weak, because the selection lasts as long as its bundle: a body is needed while streams are in the same state. */
  #joined: Partial<Record<Mode, WeakRef<Joined>>> | undefined;
  #isRead = false;

  constructor(changed: readonly EncodedResource[], removed: readonly string[], bodies: Bodies) {
    this.changed = changed;
    this.removed = removed;
    this.#bodies = bodies;
  }

  /**
   * `changed` as fields of this protocol's message. Remembered from the second time on: the selection of a proxy that
   * shares its resources with no other is read once.
   */
  body(mode: Mode): readonly Uint8Array[] {
    const known = this.#joined?.[mode]?.deref();
    if (known !== undefined) return known.body;
    const joined = this.#bodies[mode].joined(this.changed);
    if (this.#isRead) this.#joined = { ...this.#joined, [mode]: new WeakRef(joined) };
    this.#isRead = true;
    return joined.body;
  }
}

interface Joined {
  readonly resources: readonly EncodedResource[];
  readonly body: readonly Uint8Array[];
}

function isSame<T>(a: readonly T[], b: readonly T[]): boolean {
  return a.length === b.length && a.every((each, index) => each === b[index]);
}

/**
 * The joined bodies of one variant that are in use. Views with equal content have the same resources, and therefore
 * share a body.
 */
class JoinedBodies {
  readonly #mode: Mode;
  /** By the first resource of the body. */
  readonly #last: WeakMemo<EncodedResource, { joined: WeakRef<Joined> | undefined }>;

  constructor(mode: Mode, memos: Memos) {
    this.#mode = mode;
    this.#last = memos.weak(`${mode} bodies`);
  }

  /**
   * The resources as one buffer, without a copy when there is only one: writing thousands of small chunks costs more
   * than writing one buffer.
   */
  joined(resources: readonly EncodedResource[]): Joined {
    const [first] = resources;
    if (first === undefined) return { resources, body: [] };
    if (resources.length === 1) return { resources, body: [fieldOf(this.#mode)(first)] };
    const last = this.#last.get(first, () => ({ joined: undefined }));
    const known = last.joined?.deref();
    if (known !== undefined && isSame(known.resources, resources)) return known;
    const made = { resources, body: [Buffer.concat(resources.map(fieldOf(this.#mode)))] };
    last.joined = new WeakRef(made);
    return made;
  }
}

type Bodies = Readonly<Record<Mode, JoinedBodies>>;

/** Fields below this size are cheaper to copy than to write as separate chunks. */
const COPY_BELOW_BYTES = 2048;

/** The fields of resources for one stream: small ones are joined in new buffers, large ones are not copied. */
export function chunked(resources: readonly EncodedResource[], mode: Mode): readonly Uint8Array[] {
  const field = fieldOf(mode);
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

export function hashResource(name: string, version: string): SetHash {
  return hashText(`${name}\n${version}`);
}

/** Resources of the bundle with these names, in sorted order of names; walks whichever is smaller. */
function pick(bundle: Bundle, names: NameSet): EncodedResource[] {
  if (names.size > bundle.size) return bundle.resources().filter((resource) => names.has(resource.name));
  const found: EncodedResource[] = [];
  for (const name of names.sorted()) {
    const resource = bundle.get(name);
    if (resource !== undefined) found.push(resource);
  }
  return found;
}

/** The key of memos for a wildcard. */
const EVERYTHING = {};

function keyOf(interest: Interest): object {
  return interest.wildcard ? EVERYTHING : interest.names;
}

/** The selections of one server's subscriptions from its bundles. */
export class Selections {
  readonly #names: NameSets;
  readonly #few: number;
  readonly #bodies: Bodies;
  readonly #refs: WeakMemo<readonly EncodedResource[], NameSet>;
  readonly #hosts: WeakMemo<Bundle, Map<string, readonly string[]>>;
  readonly #first: WeakPairMemo<Bundle, object, Selection>;
  /** By the older bundle, which streams leave soon, then by the newer one and the interest. */
  readonly #steps: WeakMemo<Bundle, WeakPairMemo<Bundle, object, Selection>>;
  readonly #sums: WeakPairMemo<Bundle, object, SetHash>;
  readonly #newStep: () => WeakPairMemo<Bundle, object, Selection>;

  /** @param few what a subscription to so few names covers of as few resources is computed each time */
  constructor(names: NameSets, memos: Memos, few: number) {
    this.#names = names;
    this.#few = few;
    this.#bodies = { delta: new JoinedBodies('delta', memos), sotw: new JoinedBodies('sotw', memos) };
    this.#refs = memos.weak('references of resources');
    this.#hosts = memos.weak('virtual hosts of routes');
    this.#first = memos.pairs('first selections');
    this.#steps = memos.weak('selections');
    this.#sums = memos.pairs('content hashes');
    this.#newStep = () => new WeakPairMemo(memos.enabled);
  }

  /** Names of the resources that these resources refer to. */
  refsOf(resources: readonly EncodedResource[]): NameSet {
    return this.#refs.get(resources, () => this.#names.of(resources.flatMap((resource) => resource.refs)));
  }

  /** Names of the virtual hosts `<route configuration>/<host>` in these bundles. */
  hostsOf(routes: string, bundles: readonly Bundle[]): readonly string[] {
    return bundles.flatMap((bundle) => {
      const known = this.#hosts.get(bundle, () => new Map());
      let names = known.get(routes);
      if (names === undefined) {
        names = bundle
          .resources()
          .flatMap(({ name }) => (name.slice(0, name.lastIndexOf('/')) === routes ? [name] : []));
        known.set(routes, names);
      }
      return names;
    });
  }

  /**
   * The part of the difference between `previous` and `bundle` that `interest` covers.
   * @param previous an older bundle of the same view, if there is one
   */
  select(bundle: Bundle, previous: Bundle | undefined, interest: Interest): Selection {
    const make = () => this.#select(bundle, previous, interest);
    if (previous !== undefined) return this.#steps.get(previous, this.#newStep).get(bundle, keyOf(interest), make);
    // A proxy on demand may have names of its own for as long as it is connected.
    const isCheap = !interest.wildcard && bundle.size <= this.#few && interest.names.size <= this.#few;
    return isCheap ? make() : this.#first.get(bundle, keyOf(interest), make);
  }

  #select(bundle: Bundle, previous: Bundle | undefined, interest: Interest): Selection {
    if (previous === undefined && !interest.wildcard)
      return new Selection(pick(bundle, interest.names), [], this.#bodies);
    const diff = bundle.diffFrom(previous);
    if (interest.wildcard) return new Selection(diff.changed, diff.removed, this.#bodies);
    return new Selection(
      diff.changed.filter((resource) => interest.names.has(resource.name)),
      diff.removed.filter((name) => interest.names.has(name)),
      this.#bodies,
    );
  }

  /**
   * Hash of what `interest` covers of the bundle. When the hash of `previous` is known, only the difference is hashed:
   * a changed endpoint costs one hash, not one per service.
   */
  contentHash(bundle: Bundle, interest: Interest, previous?: Bundle): SetHash {
    const key = keyOf(interest);
    return this.#sums.get(bundle, key, () => {
      const before = previous === undefined ? undefined : this.#sums.peek(previous, key);
      let hash = before ?? EMPTY_HASH;
      const { changed, removed } = this.select(bundle, before === undefined ? undefined : previous, interest);
      for (const resource of changed) hash = plus(hash, hashResource(resource.name, resource.version));
      if (before === undefined || previous === undefined) return hash;
      for (const name of [...changed.map((resource) => resource.name), ...removed]) {
        const old = previous.get(name);
        if (old !== undefined) hash = minus(hash, hashResource(name, old.version));
      }
      return hash;
    });
  }
}
