/**
 * The resources that a proxy has of a type, as an immutable set that all proxies in the same state share. The step from
 * one set to the next is computed once and cached, so that a thousand proxies that get the same bytes cost as much as
 * one.
 */
import { hash } from 'node:crypto';
import type { Body, Resource } from './bodies.ts';
import { encodeNames, encodeVersions } from './requests.ts';

/** Names that proxies subscribe to, with their encoding. */
export class NameList {
  readonly names: readonly string[];
  readonly has: ReadonlySet<string>;
  #encoded: Buffer | undefined;
  readonly #steps = new Map<
    NameList,
    { readonly added: Buffer; readonly dropped: Buffer; readonly gone: readonly string[] }
  >();

  constructor(names: readonly string[]) {
    this.names = names;
    this.has = new Set(names);
  }

  /** As field 3 of a request: `resource_names` (SotW), `resource_names_subscribe` (Delta). */
  get encoded(): Buffer {
    this.#encoded ??= encodeNames(3, this.names);
    return this.#encoded;
  }

  /** The fields of a Delta request that lead from `before` to these names. */
  stepFrom(before: NameList): { readonly added: Buffer; readonly dropped: Buffer; readonly gone: readonly string[] } {
    let step = this.#steps.get(before);
    if (step === undefined) {
      const gone = before.names.filter((name) => !this.has.has(name));
      const added = this.names.filter((name) => !before.has.has(name));
      step = { added: encodeNames(3, added), dropped: encodeNames(4, gone), gone };
      this.#steps.set(before, step);
    }
    return step;
  }
}

export const NO_NAMES = new NameList([]);

/** One list for equal names, held weakly, so that it is freed with the sets that use it. */
const lists = new Map<string, WeakRef<NameList>>();

function listOf(names: readonly string[]): NameList {
  if (names.length === 0) return NO_NAMES;
  const key = hash('sha1', names.join('\n'));
  let list = lists.get(key)?.deref();
  if (list === undefined) {
    list = new NameList(names);
    lists.set(key, new WeakRef(list));
  }
  return list;
}

export class ResourceSet {
  readonly map: ReadonlyMap<string, Resource>;
  readonly #next = new Map<string, ResourceSet>();
  readonly #covers = new WeakMap<NameList, boolean>();
  #refs: NameList | undefined;
  #digest: string | undefined;
  #versions: Buffer | undefined;

  constructor(map: ReadonlyMap<string, Resource>) {
    this.map = map;
  }

  /** After a response. `replace`: it holds the whole set (SotW clusters and listeners). */
  after(body: Body, removed: readonly string[], replace: boolean): ResourceSet {
    if (removed.length === 0 && body.resources.length === 0 && !replace) return this;
    return this.#step(`${replace} ${body.id} ${removed.join('\n')}`, () => {
      const map = new Map(replace ? [] : this.map);
      for (const resource of body.resources) map.set(resource.name, resource);
      for (const name of removed) map.delete(name);
      return map;
    });
  }

  without(names: readonly string[]): ResourceSet {
    const gone = names.filter((name) => this.map.has(name));
    if (gone.length === 0) return this;
    return this.#step(`- ${gone.join('\n')}`, () => {
      const map = new Map(this.map);
      for (const name of gone) map.delete(name);
      return map;
    });
  }

  #step(key: string, make: () => Map<string, Resource>): ResourceSet {
    let next = this.#next.get(key);
    if (next === undefined) {
      next = new ResourceSet(make());
      this.#next.set(key, next);
    }
    return next;
  }

  /** The names that its resources make a proxy subscribe to. */
  get refs(): NameList {
    this.#refs ??= listOf([...new Set([...this.map.values()].flatMap(({ refs }) => refs))]);
    return this.#refs;
  }

  covers(list: NameList): boolean {
    let covered = this.#covers.get(list);
    if (covered === undefined) {
      covered = list.names.every((name) => this.map.has(name));
      this.#covers.set(list, covered);
    }
    return covered;
  }

  /** Whether each of the names is referred to. */
  refersTo(list: NameList): boolean {
    return list === NO_NAMES || list.names.every((name) => this.refs.has.has(name));
  }

  /** Equal for equal content. */
  get digest(): string {
    this.#digest ??= hash(
      'sha1',
      [...this.map]
        .map(([name, { identity }]) => `${name}\n${identity}`)
        .sort()
        .join('\n'),
    );
    return this.#digest;
  }

  /** As `initial_resource_versions` (5) of a Delta request. */
  get versions(): Buffer {
    this.#versions ??= encodeVersions(5, this.map.values());
    return this.#versions;
  }
}

export const NOTHING = new ResourceSet(new Map());
