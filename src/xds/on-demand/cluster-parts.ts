/**
 * The clusters of a view that a proxy on demand has, and their endpoints: those that all proxies of the view have, in
 * one bundle that these share, and those of the hosts that this proxy uses.
 */
import type { Memos, WeakMemo, WeakPairMemo } from '../../core/memo.ts';
import { type Bundle, type EncodedResource, emptyBundle, nextBundle } from '../../push/index.ts';
import { addedNames, type NameSet, type NameSets, NO_NAMES } from '../protocol/index.ts';
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

/** A base, and the resources that a proxy has in addition. */
export interface Part {
  readonly base: Base;
  /** The names that were wanted in addition. */
  readonly wanted: NameSet;
  /** The same, with those that these lead to. */
  readonly names: NameSet;
  /** The additional resources; undefined: everything is in the base. */
  readonly own: Bundle | undefined;
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
    return this.#clusters.get(base, own, () => this.#part(base, own, previous, (names) => this.#closure(full, names)));
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
    return this.#endpoints.get(
      base,
      own,
      () => endpointsAfter(previous, base, own) ?? this.#part(base, own, previous, (names) => names),
    );
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

  /**
   * The part with these names. Its bundle is the one of the previous part if that has the same resources.
   * @param leadTo the names with those that they lead to
   */
  #part(base: Base, wanted: NameSet, previous: Part | undefined, leadTo: (names: NameSet) => NameSet): Part {
    const { full, bundle } = base;
    const added = previous?.base === base ? addedNames(wanted, previous.wanted) : undefined;
    if (previous !== undefined && added !== undefined)
      return this.#grown(previous, wanted, leadTo(this.#names.of(added)));
    const names = leadTo(wanted);
    if (bundle.size === full.size) return { base, wanted, names, own: undefined, refs: NO_NAMES };
    const resources = new Map<string, EncodedResource | undefined>();
    const known = previous?.base.full.viewKey === full.viewKey ? previous : undefined;
    const before = known?.own ?? emptyBundle(full.type, `${full.viewKey} of one`);
    for (const name of known?.names.names ?? []) resources.set(name, undefined);
    for (const [name, resource] of additional(base, names)) resources.set(name, resource);
    const own = nextBundle(before, resources);
    if (own === previous?.own && previous.names === names) return { ...previous, base, wanted };
    const refs = this.#names.of([...resources.values()].flatMap((resource) => resource?.refs ?? []));
    return { base, wanted, names, own, refs };
  }

  /**
   * The part of the same base with more names: a proxy asks for one host after the other, and may have a thousand.
   * @param added the names, with those that they lead to
   */
  #grown({ base, names, own, refs }: Part, wanted: NameSet, added: NameSet): Part {
    const resources = own === undefined ? [] : additional(base, added);
    const more = this.#names.of(resources.flatMap(([, resource]) => resource.refs));
    return {
      base,
      wanted,
      names: this.#names.change(names, added, NO_NAMES),
      own: own && nextBundle(own, resources),
      refs: this.#names.change(refs, more, NO_NAMES),
    };
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

/** The bundles of a part: the first one is that of all proxies of the view. */
export function bundlesOf({ base, own }: Part): readonly Bundle[] {
  return own === undefined ? [base.full] : [base.bundle, own];
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

/** The resources that have these names and are not in the base. */
function additional({ full, bundle }: Base, names: NameSet): readonly (readonly [string, EncodedResource])[] {
  return all(full, names).filter(([name]) => bundle.get(name) === undefined);
}

/**
 * The endpoints of the same names, next to the same base. Undefined where these are others. Without a list of all
 * resources: when an endpoint changes, this is done for each proxy that has it.
 */
function endpointsAfter(previous: Part | undefined, base: Base, names: NameSet): Part | undefined {
  if (previous?.own === undefined || previous.wanted !== names || previous.base.bundle !== base.bundle)
    return undefined;
  if (base.bundle.size === base.full.size) return undefined;
  const { own } = previous;
  const changes: [string, EncodedResource | undefined][] = [];
  for (const name of names.names) {
    if (base.bundle.size > 0 && base.bundle.get(name) !== undefined) continue;
    const resource = base.full.get(name);
    if (resource !== own.get(name)) changes.push([name, resource]);
  }
  return { ...previous, base, own: changes.length === 0 ? own : nextBundle(own, changes) };
}

/** Whether both have the same resources of these names. */
function isSame(one: Bundle, { names }: NameSet, other: Bundle): boolean {
  for (const name of names) if (one.get(name) !== other.get(name)) return false;
  return true;
}
