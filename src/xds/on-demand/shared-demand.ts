/**
 * What streams with equal content that have asked for the same names share: the virtual hosts for the names, and the
 * clusters that these lead to. Both are bundles like those of views, so that the protocol machines treat them alike.
 */
import type { Memos, WeakMemo, WeakPairMemo } from '../../core/memo.ts';
import { type Bundle, type EncodedResource, emptyBundle, nextBundle } from '../../push/index.ts';
import type { NameSet, NameSets } from '../protocol/index.ts';
import { answeredName, restrictedHost } from './aliased-resource.ts';
import { ClusterNames, OUTBOUND_PREFIX } from './cluster-names.ts';
import { HostIndex, splitName } from './host-index.ts';
import { LearnedHosts } from './learned-hosts.ts';

/**
 * Last part of a name that is answered without having been asked for: Envoy uses a route configuration once a response
 * has a name of it, even when there is no virtual host yet.
 */
const READY = 'ready';

/** In a domain: any characters. */
const WILDCARD = '*';

/** Begins the last part of the name of a virtual host that was made for one host. */
const MADE_FOR = 'any:';

interface Indexed {
  readonly bundle: Bundle;
  readonly index: HostIndex;
}

export class SharedDemand {
  readonly names: NameSets;
  readonly learned: LearnedHosts;
  readonly #clusterNames: ClusterNames;
  readonly #hosts: WeakPairMemo<Bundle, NameSet, Bundle>;
  readonly #clusters: WeakPairMemo<Bundle, NameSet, Bundle>;
  readonly #always: WeakMemo<Bundle, readonly EncodedResource[]>;
  readonly #everything: WeakPairMemo<Bundle, NameSet, Bundle>;
  readonly #existing: WeakPairMemo<Bundle, NameSet, NameSet>;
  readonly #made: WeakMemo<Bundle, number>;
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
    this.#clusters = memos.pairs('clusters of hosts that were asked for');
    this.#always = memos.weak('clusters that nobody asks for');
    this.#everything = memos.pairs('all hosts, with answers');
    this.#existing = memos.pairs('existing hosts');
    this.#made = memos.weak('virtual hosts made for one host');
    this.#routes = memos.weak('route configurations with discovery');
    this.#indexes = memos.weak('domains of virtual hosts');
  }

  /** Names of the route configurations that use discovery. */
  routesOf(bundles: readonly Bundle[]): NameSet {
    const ofBundle = (bundle: Bundle): NameSet =>
      this.#routes.get(bundle, () => this.names.of(bundle.resources().flatMap(({ refs }) => refs)));
    const [first, ...others] = bundles.map(ofBundle);
    return first === undefined || others.every(({ size }) => size === 0)
      ? (first ?? this.names.of([]))
      : this.names.of([first, ...others].flatMap(({ names }) => [...names]));
  }

  /** The clusters that these resources name. */
  clustersOf(bundles: readonly Bundle[]): NameSet {
    return this.#clusterNames.ofBundles(bundles);
  }

  /**
   * The virtual hosts for the names that a proxy has asked for.
   * @param asked names that it has asked for, and {@link readyName}s
   */
  hosts(bundle: Bundle, asked: NameSet): Bundle {
    return this.#hosts.get(bundle, asked, () => {
      const index = this.indexOf(bundle);
      const resources = new Map<string, EncodedResource>();
      for (const name of asked.names) {
        for (const resource of answersFor(name, index)) resources.set(resource.name, resource);
      }
      return nextBundle(emptyBundle('vhds', onDemand(bundle)), resources);
    });
  }

  /** All virtual hosts, and answers to the names that a proxy has asked for. */
  everything(bundle: Bundle, asked: NameSet): Bundle {
    return this.#everything.get(bundle, asked, () => {
      const answers = [...asked.names].filter((name) => bundle.get(name) === undefined).map(answeredName);
      const resources = [...bundle.resources(), ...answers].map((each): [string, EncodedResource] => [each.name, each]);
      return nextBundle(emptyBundle('vhds', onDemand(bundle)), resources);
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

  /** The names that the bundle has. */
  existing(bundle: Bundle, names: NameSet): NameSet {
    return this.#existing.get(bundle, names, () =>
      this.names.of([...names.names].filter((name) => bundle.get(name) !== undefined)),
    );
  }

  /** The number of virtual hosts that were made for one host each. */
  madeIn(bundle: Bundle): number {
    return this.#made.get(bundle, () => bundle.resources().filter(({ name }) => isMade(name)).length);
  }

  /** The clusters that have these names, and those that nobody asks for. */
  clusters(bundle: Bundle, wanted: NameSet): Bundle {
    return this.#clusters.get(bundle, wanted, () => {
      const resources = new Map(this.#alwaysIn(bundle).map((resource) => [resource.name, resource]));
      const waiting = [...wanted.names];
      for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
        const cluster = resources.has(name) ? undefined : bundle.get(name);
        if (cluster === undefined) continue;
        resources.set(name, cluster);
        // Members of an aggregate.
        waiting.push(...this.#clusterNames.ofResource(cluster));
      }
      return nextBundle(emptyBundle('cds', onDemand(bundle)), resources);
    });
  }

  #alwaysIn(bundle: Bundle): readonly EncodedResource[] {
    return this.#always.get(bundle, () => bundle.resources().filter(({ name }) => !name.startsWith(OUTBOUND_PREFIX)));
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

/** The name that makes a route configuration usable. */
export function readyName(routes: string): string {
  return `${routes}/${READY}`;
}

/** Whether a name that a proxy reports is of a virtual host that was made for one host. */
export function isMade(name: string): boolean {
  return splitName(name).host.startsWith(MADE_FOR);
}

/**
 * The resources that answer a name. A virtual host with wildcards is never sent itself: Envoy would use it for hosts
 * that have another virtual host, and not ask for that.
 */
function answersFor(name: string, index: HostIndex): readonly EncodedResource[] {
  const { routes, host } = splitName(name);
  // A host with a wildcard would make a virtual host for all others.
  const found = host === READY || host.includes(WILDCARD) ? undefined : index.find(name);
  if (found === undefined) return [answeredName(name)];
  if (found.hasWildcards) {
    const made = { name: `${routes}/${MADE_FOR}${host}`, domain: host, alias: name };
    return [restrictedHost(found.host, made)];
  }
  return found.host.name === name ? [found.host] : [found.host, answeredName(name)];
}
