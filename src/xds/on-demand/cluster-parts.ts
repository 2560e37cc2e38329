/**
 * The clusters of a view that a proxy on demand has, and their endpoints: those that all proxies of the view have, in
 * one bundle that these share, and those of the hosts that this proxy uses.
 */
import type { Memos, WeakMemo, WeakPairMemo } from '../../core/memo.ts';
import { type Bundle, bundleAfter, type EncodedResource, emptyBundle, nextBundle } from '../../push/index.ts';
import { type NameSet, type NameSets, NO_NAMES } from '../protocol/index.ts';
import { type ClusterNames, isUnaskable } from './cluster-names.ts';

/** The resources of a bundle that all proxies of its view have. */
export interface Base {
  readonly full: Bundle;
  /** The names that were wanted of the bundle. */
  readonly wanted: NameSet;
  /** The same, with those that these lead to. */
  readonly names: NameSet;
  readonly bundle: Bundle;
}

/** A base, with the resources that a proxy has in addition. */
export interface Part {
  readonly base: Base;
  /** The names that were wanted in addition. */
  readonly wanted: NameSet;
  /** The same, with those that these lead to. */
  readonly names: NameSet;
  readonly bundle: Bundle;
  /** The names that the additional resources refer to. */
  readonly refs: NameSet;
}

/** The key of the view of bundles with a part of the resources of a view. */
export function onDemand({ viewKey }: Bundle): string {
  return `${viewKey} on demand`;
}

export class ClusterParts {
  readonly #names: NameSets;
  readonly #clusterNames: ClusterNames;
  readonly #clusterBases: WeakPairMemo<Bundle, NameSet, Base>;
  readonly #endpointBases: WeakPairMemo<Bundle, NameSet, Base>;
  readonly #clusters: WeakPairMemo<Base, NameSet, Part>;
  readonly #endpoints: WeakPairMemo<Base, NameSet, Part>;
  readonly #refs: WeakMemo<Bundle, NameSet>;

  constructor(names: NameSets, clusterNames: ClusterNames, memos: Memos) {
    this.#names = names;
    this.#clusterNames = clusterNames;
    this.#clusterBases = memos.pairs('clusters that nobody asks for');
    this.#endpointBases = memos.pairs('endpoints that nobody asks for');
    this.#clusters = memos.pairs('clusters of hosts that were asked for');
    this.#endpoints = memos.pairs('endpoints of hosts that were asked for');
    this.#refs = memos.weak('endpoints of clusters that nobody asks for');
  }

  /**
   * The clusters that have these names, and those that nobody asks for.
   * @param fixed clusters that all proxies of the view have
   * @param own clusters of this proxy
   * @param previous what the proxy had
   */
  clusters(full: Bundle, fixed: NameSet, own: NameSet, previous: Part | undefined): Part {
    const base = this.#clusterBases.get(full, fixed, () => this.#clusterBase(full, fixed, previous?.base));
    return this.#clusters.get(base, own, () => this.#part(base, own, previous, () => this.#closure(full, own)));
  }

  /**
   * The endpoints of clusters.
   * @param own names of endpoints of this proxy
   * @param previous what the proxy had
   */
  endpoints(full: Bundle, clusters: Part, own: NameSet, previous: Part | undefined): Part {
    const { bundle } = clusters.base;
    const fixed = this.#refs.get(bundle, () => this.#names.of(bundle.resources().flatMap(({ refs }) => refs)));
    const base = this.#endpointBases.get(full, fixed, () => {
      const before = previous?.base;
      if (before?.wanted === fixed && isSame(full, fixed, before.bundle)) return { ...before, full };
      return {
        full,
        wanted: fixed,
        names: fixed,
        bundle: nextBundle(emptyBundle('eds', onDemand(full)), all(full, fixed)),
      };
    });
    return this.#endpoints.get(base, own, () => this.#part(base, own, previous, () => own));
  }

  #clusterBase(full: Bundle, wanted: NameSet, before: Base | undefined): Base {
    if (before?.wanted === wanted && before.full.viewKey === full.viewKey) {
      const { changed, removed } = full.diffFrom(before.full);
      const isHere = (name: string) => before.names.has(name) || before.bundle.get(name) !== undefined;
      if (!removed.some(isHere) && !changed.some((cluster) => isHere(cluster.name) || isUnaskable(cluster)))
        return { ...before, full };
    }
    const names = this.#closure(full, wanted);
    const resources = new Map(all(full, names));
    for (const cluster of full.resources()) if (isUnaskable(cluster)) resources.set(cluster.name, cluster);
    return { full, wanted, names, bundle: nextBundle(emptyBundle('cds', onDemand(full)), resources) };
  }

  /** The part with these names; the bundle of the previous one if it is the same. */
  #part(base: Base, wanted: NameSet, previous: Part | undefined, namesOf: () => NameSet): Part {
    const { full } = base;
    if (base.bundle.size === full.size) return { base, wanted, names: wanted, bundle: full, refs: NO_NAMES };
    const before = previous?.base.full.viewKey === full.viewKey ? previous : undefined;
    if (before?.wanted === wanted && before.base.bundle === base.bundle && isSame(full, before.names, before.bundle))
      return { ...before, base };
    const names = namesOf();
    const resources = all(full, names);
    const bundle = bundleAfter(before?.bundle ?? base.bundle, base.bundle, resources);
    const refs = this.#names.of(resources.flatMap(([, { refs }]) => refs));
    return { base, wanted, names, bundle, refs };
  }

  /** The names, and those of members of aggregates. */
  #closure(full: Bundle, wanted: NameSet): NameSet {
    const names = new Set(wanted.names);
    for (const name of names) {
      const cluster = full.get(name);
      for (const member of cluster === undefined ? [] : this.#clusterNames.ofResource(cluster)) names.add(member);
    }
    return names.size === wanted.size ? wanted : this.#names.of(names);
  }
}

/** The resources that have these names. */
function all(bundle: Bundle, { names }: NameSet): (readonly [string, EncodedResource])[] {
  const found: (readonly [string, EncodedResource])[] = [];
  for (const name of names) {
    const resource = bundle.get(name);
    if (resource !== undefined) found.push([name, resource]);
  }
  return found;
}

/** Whether both have the same resources of these names. */
function isSame(one: Bundle, { names }: NameSet, other: Bundle): boolean {
  for (const name of names) if (one.get(name) !== other.get(name)) return false;
  return true;
}
