/**
 * What bundles consist of: resources by name, immutable. Few resources are a list in the order of their names:
 * thousands of proxies on demand have some that no other has. Many are a persistent map, of which the next content
 * shares nearly everything.
 */
import { PMap, type PMapChanges } from '../../core/pmap.ts';
import type { EncodedResource } from '../types.ts';

/** Resources by name; undefined: the name is removed. */
export type ContentChanges = PMapChanges<EncodedResource>;

export interface Content {
  readonly size: number;
  get(name: string): EncodedResource | undefined;
  /** In code-unit order of names. */
  resources(): readonly EncodedResource[];
  /** The content after these changes, in their order; the same object if it is unchanged. */
  with(changes: ContentChanges): Content;
  /** Names of which the other content has another resource, or none; or which only the other has. In order. */
  changedNames(other: Content): readonly string[];
}

/** Most resources of a list. */
const MAX_LISTED = 128;

class Listed implements Content {
  readonly #resources: readonly EncodedResource[];

  /** @param resources in order */
  constructor(resources: readonly EncodedResource[]) {
    this.#resources = resources;
  }

  get size(): number {
    return this.#resources.length;
  }

  get(name: string): EncodedResource | undefined {
    const at = this.#indexOf(name);
    return at === undefined ? undefined : this.#resources[at];
  }

  #indexOf(name: string): number | undefined {
    const resources = this.#resources;
    let low = 0;
    let high = resources.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const known = resources[middle]?.name ?? '';
      if (known === name) return middle;
      if (known < name) low = middle + 1;
      else high = middle;
    }
    return undefined;
  }

  resources(): readonly EncodedResource[] {
    return this.#resources;
  }

  with(changes: ContentChanges): Content {
    // Others can perhaps be read only once.
    const replaced = Array.isArray(changes) ? this.#replaced(changes) : undefined;
    return replaced ?? this.#rebuilt(changes);
  }

  /**
   * The content where only resources of known names are replaced, which keep their places: when an endpoint changes,
   * this is done for each proxy that has it. Undefined otherwise.
   */
  #replaced(changes: ContentChanges): Content | undefined {
    let next: EncodedResource[] | undefined;
    for (const [name, resource] of changes) {
      const at = this.#indexOf(name);
      if (at === undefined || resource?.name !== name) return undefined;
      if ((next ?? this.#resources)[at] === resource) continue;
      next ??= [...this.#resources];
      next[at] = resource;
    }
    return next === undefined ? this : new Listed(next);
  }

  #rebuilt(changes: ContentChanges): Content {
    const all = new Map<string, EncodedResource>();
    for (const each of this.#resources) all.set(each.name, each);
    for (const [name, resource] of changes)
      if (resource === undefined) all.delete(name);
      else all.set(name, resource);
    if (all.size > MAX_LISTED) return new Mapped(PMap.from(all));
    const next = [...all.values()].sort(byName);
    const isSame = next.length === this.size && next.every((each, index) => each === this.#resources[index]);
    return isSame ? this : new Listed(next);
  }

  changedNames(other: Content): readonly string[] {
    return changedBetween(this, other);
  }
}

class Mapped implements Content {
  readonly #map: PMap<EncodedResource>;
  #all: readonly EncodedResource[] | undefined;

  constructor(map: PMap<EncodedResource>) {
    this.#map = map;
  }

  get size(): number {
    return this.#map.size;
  }

  get(name: string): EncodedResource | undefined {
    return this.#map.get(name);
  }

  resources(): readonly EncodedResource[] {
    this.#all ??= this.#map.sorted().map(([, resource]) => resource);
    return this.#all;
  }

  with(changes: ContentChanges): Content {
    const map = this.#map.with(changes);
    return map === this.#map ? this : new Mapped(map);
  }

  changedNames(other: Content): readonly string[] {
    return other instanceof Mapped ? this.#map.changedKeys(other.#map).sort() : changedBetween(this, other);
  }
}

export const NO_CONTENT: Content = new Listed([]);

/** Walks both in order. */
function changedBetween(one: Content, other: Content): readonly string[] {
  const changed: string[] = [];
  const [mine, theirs] = [one.resources(), other.resources()];
  let at = 0;
  for (const resource of mine) {
    let next = theirs[at];
    for (; next !== undefined && next !== resource && next.name < resource.name; next = theirs[++at])
      changed.push(next.name);
    if (next !== resource) changed.push(resource.name);
    if (next === resource || next?.name === resource.name) at++;
  }
  for (const { name } of theirs.slice(at)) changed.push(name);
  return changed;
}

function byName(a: EncodedResource, b: EncodedResource): number {
  return a.name < b.name ? -1 : 1;
}
