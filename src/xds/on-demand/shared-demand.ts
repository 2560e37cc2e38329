/**
 * What streams with equal content that have asked for the same names share: the virtual hosts for the names, and the
 * clusters that these lead to. Both are bundles like those of views, so that the protocol machines treat them alike.
 */
import { type Memos, WeakMemo, type WeakPairMemo } from '../../core/memo.ts';
import { type Bundle, type BundleDiff, type EncodedResource, emptyBundle, nextBundle } from '../../push/index.ts';
import { type NameSet, type NameSets, NO_NAMES } from '../protocol/index.ts';
import { answeredName, domainsOf, madeName, restrictedHost } from './aliased-resource.ts';
import { ClusterNames, OUTBOUND_PREFIX } from './cluster-names.ts';
import { ANY, HostIndex, splitName } from './host-index.ts';
import { LearnedHosts } from './learned-hosts.ts';

/** Part of the names of secrets that `ctl-discovery` serves: Envoy uses such a cluster when it has the secret. */
const SECRET_PREFIX = 'kubernetes://';

/** A bundle with a part of another one. */
export interface Derived {
  readonly full: Bundle;
  /** What it was derived by. */
  readonly by: readonly NameSet[];
  readonly bundle: Bundle;
}

/** The virtual hosts that a proxy gets. */
export interface WantedHosts {
  /** Names that it has asked for. */
  readonly asked: NameSet;
  /** Names of virtual hosts. */
  readonly given: NameSet;
}

interface Indexed {
  readonly bundle: Bundle;
  readonly index: HostIndex;
}

export class SharedDemand {
  readonly names: NameSets;
  readonly learned: LearnedHosts;
  readonly #clusterNames: ClusterNames;
  readonly #hosts: WeakPairMemo<Bundle, NameSet, WeakMemo<NameSet, Derived>>;
  readonly #newOfGiven: () => WeakMemo<NameSet, Derived>;
  readonly #clusters: WeakPairMemo<Bundle, NameSet, Derived>;
  readonly #always: WeakMemo<Bundle, readonly EncodedResource[]>;
  readonly #everything: WeakPairMemo<Bundle, NameSet, Bundle>;
  readonly #routes: WeakMemo<Bundle, NameSet>;
  readonly #indexes: WeakMemo<Bundle, Indexed>;
  /** The newest index of each view, from which the next one is made. */
  readonly #newest = new Map<string, WeakRef<Indexed>>();
  readonly #collected = new FinalizationRegistry<string>((view) => {
    if (this.#newest.get(view)?.deref() === undefined) this.#newest.delete(view);
  });

  /** @param now monotonic ms */
  constructor(names: NameSets, memos: Memos, now: () => number) {
    this.names = names;
    this.learned = new LearnedHosts(names, now);
    this.#clusterNames = new ClusterNames(names, memos);
    this.#hosts = memos.pairs('hosts that were asked for');
    this.#newOfGiven = () => new WeakMemo(memos.enabled);
    this.#clusters = memos.pairs('clusters of hosts that were asked for');
    this.#always = memos.weak('clusters that nobody asks for');
    this.#everything = memos.pairs('all hosts, with answers');
    this.#routes = memos.weak('route configurations with discovery');
    this.#indexes = memos.weak('domains of virtual hosts');
  }

  /** Names of the route configurations that use discovery. */
  routesOf(bundles: readonly Bundle[]): NameSet {
    return bundles.reduce((all, bundle) => {
      const routes = this.#routes.get(bundle, () => this.names.of(bundle.resources().flatMap(({ refs }) => refs)));
      return this.names.change(all, routes, NO_NAMES);
    }, NO_NAMES);
  }

  /** The clusters that these resources name. */
  clustersOf(bundles: readonly Bundle[]): NameSet {
    return this.#clusterNames.ofBundles(bundles);
  }

  /**
   * The virtual hosts that a proxy gets, and the answers to what it has asked for.
   * @param previous what it had
   */
  hosts(full: Bundle, { asked, given }: WantedHosts, previous: Derived | undefined): Derived {
    return this.#hosts.get(full, asked, this.#newOfGiven).get(given, () => {
      const by = [asked, given];
      const unchanged = unchangedBy(full, by, previous, (diff, before) => touchesHosts(diff, before, { asked, given }));
      if (unchanged !== undefined) return { full, by, bundle: unchanged };
      const index = this.indexOf(full);
      const resources = new Map<string, EncodedResource>();
      for (const name of given.names) {
        const host = full.get(name);
        if (host !== undefined && !hasWildcards(host)) resources.set(name, host);
      }
      for (const name of asked.names)
        for (const resource of answersFor(name, index)) resources.set(resource.name, resource);
      return { full, by, bundle: nextBundle(emptyBundle('vhds', onDemand(full)), resources) };
    });
  }

  /**
   * The clusters that have these names, and those that nobody asks for.
   * @param previous what the proxy had
   */
  clusters(full: Bundle, wanted: NameSet, previous: Derived | undefined): Derived {
    return this.#clusters.get(full, wanted, () => {
      const by = [wanted];
      const isHere = (name: string, { bundle }: Derived): boolean =>
        bundle.get(name) !== undefined || wanted.has(name) || !name.startsWith(OUTBOUND_PREFIX);
      const unchanged = unchangedBy(
        full,
        by,
        previous,
        ({ changed, removed }, derived) =>
          changed.some((cluster) => isHere(cluster.name, derived) || isUnaskable(cluster)) ||
          removed.some((name) => isHere(name, derived)),
      );
      if (unchanged !== undefined) return { full, by, bundle: unchanged };
      const resources = new Map(this.#alwaysIn(full).map((resource) => [resource.name, resource]));
      const waiting = [...wanted.names];
      for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
        const cluster = resources.has(name) ? undefined : full.get(name);
        if (cluster === undefined) continue;
        resources.set(name, cluster);
        // Members of an aggregate.
        waiting.push(...this.#clusterNames.ofResource(cluster));
      }
      return { full, by, bundle: nextBundle(emptyBundle('cds', onDemand(full)), resources) };
    });
  }

  #alwaysIn(bundle: Bundle): readonly EncodedResource[] {
    return this.#always.get(bundle, () => bundle.resources().filter(isUnaskable));
  }

  /** All virtual hosts, and answers to the names that a proxy has asked for. */
  everything(full: Bundle, asked: NameSet): Bundle {
    return this.#everything.get(full, asked, () => {
      const resources = [...full.resources(), ...Array.from(asked.names, answeredName)];
      return nextBundle(
        emptyBundle('vhds', onDemand(full)),
        resources.map((each) => [each.name, each] as const),
      );
    });
  }

  /** The virtual hosts for names that a proxy has asked for, but those of which it only gets a part. */
  namesOfHosts(bundle: Bundle, asked: NameSet): readonly string[] {
    const index = this.indexOf(bundle);
    return [...asked.names].flatMap((name) => {
      const found = index.find(name);
      return found === undefined || found.hasWildcards ? [] : [found.host.name];
    });
  }

  /** The virtual hosts of these hosts in all route configurations, but those of which a proxy only gets a part. */
  namedHosts(bundle: Bundle, routes: readonly Bundle[], hosts: readonly string[]): NameSet {
    const index = this.indexOf(bundle);
    const configurations = [...this.routesOf(routes).names];
    const found = configurations.flatMap((each) => hosts.map((host) => index.find(`${each}/${host}`)));
    return this.names.of(found.flatMap((each) => (each === undefined || each.hasWildcards ? [] : [each.host.name])));
  }

  indexOf(bundle: Bundle): HostIndex {
    const { index } = this.#indexes.get(bundle, () => {
      const made = { bundle, index: HostIndex.of(bundle, this.#newest.get(bundle.viewKey)?.deref()) };
      this.#newest.set(bundle.viewKey, new WeakRef(made));
      this.#collected.register(made, bundle.viewKey);
      return made;
    });
    return index;
  }
}

/** The key of the view of bundles with a part of the resources of a view. */
function onDemand({ viewKey }: Bundle): string {
  return `${viewKey} on demand`;
}

/** The derived bundle, if it is the same for the next full one: most changes are of what a proxy does not use. */
function unchangedBy(
  full: Bundle,
  by: readonly NameSet[],
  previous: Derived | undefined,
  touches: (diff: BundleDiff, previous: Derived) => boolean,
): Bundle | undefined {
  if (previous === undefined || previous.full.viewKey !== full.viewKey) return undefined;
  if (previous.by.some((names, at) => names !== by[at])) return undefined;
  return touches(full.diffFrom(previous.full), previous) ? undefined : previous.bundle;
}

/** Whether a difference concerns the hosts of a proxy, or names that it has asked for. */
function touchesHosts({ changed, removed }: BundleDiff, previous: Derived, { asked, given }: WantedHosts): boolean {
  const { full, bundle } = previous;
  const isOf = (host: EncodedResource): boolean => {
    const { routes } = splitName(host.name);
    return domainsOf(host).some((domain) => domain.startsWith(ANY) || asked.has(`${routes}/${domain}`));
  };
  const had = (name: string): boolean => {
    const host = full.get(name);
    return bundle.get(name) !== undefined || given.has(name) || (host !== undefined && isOf(host));
  };
  return removed.some(had) || changed.some((host) => had(host.name) || isOf(host));
}

function hasWildcards(host: EncodedResource): boolean {
  return domainsOf(host).some((domain) => domain.startsWith(ANY));
}

/**
 * Whether a proxy has a cluster from the start. Envoy uses clusters without EDS once names are resolved, and those with
 * secrets of `ctl-discovery` once it has the secret: the first request would be too early.
 */
function isUnaskable({ name, refs, fragment }: EncodedResource): boolean {
  if (!name.startsWith(OUTBOUND_PREFIX) || refs.length === 0) return true;
  return Buffer.from(fragment.buffer, fragment.byteOffset, fragment.length).includes(SECRET_PREFIX);
}

/**
 * The resources that answer a name: the virtual host, and the answer itself, which ends the wait also where the proxy
 * has the host already, or rejects it. A virtual host with wildcards is never sent itself: Envoy would use it for hosts
 * that have another virtual host, and not ask for that.
 */
function answersFor(name: string, index: HostIndex): readonly EncodedResource[] {
  const { host } = splitName(name);
  // A host with a wildcard would make a virtual host for all others.
  const found = host === '' || host.includes(ANY) ? undefined : index.find(name);
  const answer = answeredName(name);
  if (found === undefined) return [answer];
  return [found.hasWildcards ? restrictedHost(found.host, { name: madeName(name), domain: host }) : found.host, answer];
}
