/**
 * The clusters of a view that a proxy on demand has, and their endpoints: those that all proxies of the view have, in
 * one bundle that these share, and those of the hosts that this proxy uses.
 */
import { type Memos, type WeakMemo, WeakPairMemo } from '../../core/memo.ts';
import { type Bundle, type EncodedResource, emptyBundle, nextBundle } from '../../push/index.ts';
import { addedNames, type NameSet, type NameSets, NO_NAMES } from '../protocol/index.ts';
import { type ClusterNames, isUnaskable } from './cluster-names.ts';
import { isUnconcerned } from './concerned-names.ts';

type Resources = Iterable<readonly [string, EncodedResource]>;

/** The resources of a view that all of its proxies have. It lasts as long as these do not change. */
interface Base {
  readonly viewKey: string;
  /** The names that were wanted of the view. */
  readonly wanted: NameSet;
  /** The same, with those that these lead to. */
  readonly names: NameSet;
  readonly bundle: Bundle;
  /**
   * Clusters: the last bundle of the view that was found to have these resources. One for all proxies that have the
   * base.
   */
  checked: Bundle | undefined;
}

/** A base, and the resources that a proxy has in addition. */
export interface Part {
  readonly base: Base;
  /** The bundle that it is a part of. Proxies keep the part for long, and that bundle would keep a mesh in memory. */
  readonly of: WeakRef<Bundle>;
  /** That bundle, if everything of it is in the base. */
  readonly whole: Bundle | undefined;
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

/** Parts of one bundle, by what was wanted next to a base. */
type PartsOfBundle = WeakPairMemo<Base, NameSet, Part>;

export class ClusterParts {
  readonly #names: NameSets;
  readonly #clusterNames: ClusterNames;
  readonly #clusterBases: WeakPairMemo<Bundle, NameSet, Base>;
  readonly #endpointBases: WeakPairMemo<Bundle, NameSet, Base>;
  readonly #clusters: WeakMemo<Bundle, PartsOfBundle>;
  readonly #endpoints: WeakMemo<Bundle, PartsOfBundle>;
  readonly #newPartsOfBundle: () => PartsOfBundle;
  readonly #refs: WeakMemo<Bundle, NameSet>;

  constructor(names: NameSets, clusterNames: ClusterNames, memos: Memos) {
    this.#names = names;
    this.#clusterNames = clusterNames;
    this.#clusterBases = memos.pairs('clusters that nobody asks for');
    this.#endpointBases = memos.pairs('endpoints that nobody asks for');
    this.#clusters = memos.weak('clusters of hosts that were asked for');
    this.#endpoints = memos.weak('endpoints of hosts that were asked for');
    this.#newPartsOfBundle = () => new WeakPairMemo(memos.enabled);
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
    const known = this.#clusters.get(full, this.#newPartsOfBundle);
    return known.get(base, own, () => this.#part(full, base, own, previous, (names) => this.#closure(full, names)));
  }

  /**
   * The endpoints of clusters.
   * @param own names of endpoints of this proxy
   * @param previous what the proxy had
   */
  endpoints(full: Bundle, clusters: Part, own: NameSet, previous: Part | undefined): Part {
    const { bundle } = clusters.base;
    const fixed = this.#refs.get(bundle, () => this.#names.of(bundle.resources().flatMap(({ refs }) => refs)));
    const base = this.#endpointBases.get(full, fixed, () => this.#endpointBase(full, fixed, previous?.base));
    const known = this.#endpoints.get(full, this.#newPartsOfBundle);
    return known.get(
      base,
      own,
      () => endpointsAfter(full, previous, base, own) ?? this.#part(full, base, own, previous, (names) => names),
    );
  }

  #clusterBase(full: Bundle, wanted: NameSet, before: Base | undefined): Base {
    if (before?.wanted === wanted && before.viewKey === full.viewKey && before.checked !== undefined) {
      const { changed, removed } = full.diffFrom(before.checked);
      const isHere = (name: string) => before.names.has(name) || before.bundle.get(name) !== undefined;
      if (!removed.some(isHere) && !changed.some((cluster) => isHere(cluster.name) || isUnaskable(cluster))) {
        before.checked = full;
        return before;
      }
    }
    const names = this.#closure(full, wanted);
    const resources = new Map(all(full, names));
    for (const cluster of full.resources()) if (isUnaskable(cluster)) resources.set(cluster.name, cluster);
    return { ...newBase(full, wanted, names, resources), checked: full };
  }

  #endpointBase(full: Bundle, wanted: NameSet, before: Base | undefined): Base {
    const isKept = before?.wanted === wanted && before.viewKey === full.viewKey && isSame(full, wanted, before.bundle);
    return isKept ? before : newBase(full, wanted, wanted, all(full, wanted));
  }

  /**
   * The part with these names. Its bundle is the one of the previous part if that has the same resources.
   * @param leadTo the names with those that they lead to
   */
  #part(
    full: Bundle,
    base: Base,
    wanted: NameSet,
    previous: Part | undefined,
    leadTo: (names: NameSet) => NameSet,
  ): Part {
    const grows = previous?.base === base && hasSame(previous, full);
    const added = grows ? addedNames(wanted, previous.wanted) : undefined;
    if (grows && added !== undefined) return this.#grown(full, previous, wanted, leadTo(this.#names.of(added)));
    const names = leadTo(wanted);
    const of = full.ref;
    if (base.bundle.size === full.size) return { base, of, whole: full, wanted, names, own: undefined, refs: NO_NAMES };
    const resources = new Map<string, EncodedResource | undefined>();
    const known = previous?.base.viewKey === full.viewKey ? previous : undefined;
    const before = known?.own ?? emptyBundle(full.type, `${full.viewKey} of one`);
    for (const name of known?.names.names ?? []) resources.set(name, undefined);
    for (const [name, resource] of additional(full, base, names)) resources.set(name, resource);
    const own = nextBundle(before, resources);
    if (own === previous?.own && previous.names === names) return { ...previous, base, of, wanted };
    const refs = this.#names.of([...resources.values()].flatMap((resource) => resource?.refs ?? []));
    return { base, of, whole: undefined, wanted, names, own, refs };
  }

  /**
   * The part of the same base with more names: a proxy asks for one host after the other, and may have a thousand.
   * @param added the names, with those that they lead to
   */
  #grown(full: Bundle, previous: Part, wanted: NameSet, added: NameSet): Part {
    const { base, names, own, refs } = previous;
    const resources = own === undefined ? [] : additional(full, base, added);
    const more = this.#names.of(resources.flatMap(([, resource]) => resource.refs));
    return {
      ...previous,
      of: full.ref,
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

function newBase(full: Bundle, wanted: NameSet, names: NameSet, resources: Resources): Base {
  const bundle = nextBundle(emptyBundle(full.type, onDemand(full)), resources);
  return { viewKey: full.viewKey, wanted, names, bundle, checked: undefined };
}

/** Whether a part has the same resources of this bundle as of its own. */
function hasSame({ of, own, names }: Part, full: Bundle): boolean {
  return of === full.ref || (own !== undefined && isUnconcerned(of, full, [names]));
}

/** The bundles of a part: the first one is that of all proxies of the view. */
export function bundlesOf({ base, whole, own }: Part): readonly Bundle[] {
  const shared = whole ?? base.bundle;
  return own === undefined ? [shared] : [shared, own];
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
function additional(full: Bundle, { bundle }: Base, names: NameSet): readonly (readonly [string, EncodedResource])[] {
  return all(full, names).filter(([name]) => bundle.get(name) === undefined);
}

/**
 * The endpoints of the same names, next to the same base. Undefined where these are others. Without a list of all
 * resources: when an endpoint changes, this is done for each proxy that has it.
 */
function endpointsAfter(full: Bundle, previous: Part | undefined, base: Base, names: NameSet): Part | undefined {
  if (previous?.own === undefined || previous.wanted !== names || previous.base.bundle !== base.bundle)
    return undefined;
  const { bundle } = base;
  if (bundle.size === full.size) return undefined;
  const { own } = previous;
  const changes: [string, EncodedResource | undefined][] = [];
  for (const name of changedNames(previous.of, full, names)) {
    const resource = full.get(name);
    if (resource === own.get(name) || bundle.get(name) !== undefined) continue;
    changes.push([name, resource]);
  }
  return { ...previous, base, of: full.ref, own: changes.length === 0 ? own : nextBundle(own, changes) };
}

/** Those of the names whose resources may be others than in an earlier bundle. */
function changedNames(earlier: WeakRef<Bundle>, full: Bundle, names: NameSet): Iterable<string> {
  const before = earlier.deref();
  if (before === undefined || before.viewKey !== full.viewKey) return names.names;
  // One for all proxies that had the earlier bundle.
  const { changed, removed } = full.diffFrom(before);
  if (changed.length + removed.length > 2 * names.size) return names.names;
  const found = removed.filter((name) => names.has(name));
  for (const { name } of changed) if (names.has(name)) found.push(name);
  return found;
}

/** Whether both have the same resources of these names. */
function isSame(one: Bundle, { names }: NameSet, other: Bundle): boolean {
  for (const name of names) if (one.get(name) !== other.get(name)) return false;
  return true;
}
