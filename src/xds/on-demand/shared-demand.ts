/**
 * What streams with equal content that have asked for the same names share: the virtual hosts for the names, the
 * clusters that these lead to, and the endpoints of these. All are bundles like those of views, so that the protocol
 * machines treat them alike.
 *
 * Each is made from the one that the proxy had before, by its names: a proxy uses few resources, and may not have
 * looked at its content for thousands of changes.
 */
import type { Clock } from '../../core/clock.ts';
import { type Memos, WeakMemo, type WeakPairMemo } from '../../core/memo.ts';
import type { XdsType } from '../../core/xds-types.ts';
import {
  type Bundle,
  bundleAfter,
  type EncodedResource,
  emptyBundle,
  type LaterClusters,
  type LaterHosts,
  nextBundle,
  type Parts,
} from '../../push/index.ts';
import { addedNames, type NameSet, type NameSets, NO_NAMES } from '../protocol/index.ts';
import { AbsentClusters } from './absent-clusters.ts';
import { answeredName, restrictedHost } from './aliased-resource.ts';
import { Askers } from './askers.ts';
import { ClusterNames, isOutbound } from './cluster-names.ts';
import { ClusterParts, onDemand } from './cluster-parts.ts';
import { isUnconcerned } from './concerned-names.ts';
import { ANY, type FoundHost, HostTable, isKnown, splitName } from './host-table.ts';
import { LearnedHosts } from './learned-hosts.ts';
import { MadeResources } from './made-resources.ts';
import { madeName, readyName } from './own-names.ts';

/**
 * Most bytes of virtual hosts that are made for the names of one proxy: a virtual host with wildcards may be as large
 * as its VirtualService, and is made for each name. A thousand for hosts that the mesh does not know have 0.5 MB.
 */
const MAX_MADE_BYTES = 4 * 1024 * 1024;

/** The virtual hosts that a proxy gets. */
export interface WantedHosts {
  /** Names that it has asked for. */
  readonly asked: NameSet;
  /** Names of virtual hosts. */
  readonly given: NameSet;
}

/** The virtual hosts of one proxy, made for what it wants of a bundle. */
export interface HostPart {
  /** The bundle that it is a part of. Proxies keep the part for long, and that bundle would keep a mesh in memory. */
  readonly of: WeakRef<Bundle>;
  readonly wanted: WantedHosts;
  readonly bundle: Bundle;
  /** The clusters that they lead to. */
  readonly clusters: NameSet;
  /** Bytes of those that were made for names. */
  readonly madeBytes: number;
}

/** The names in a request of a type. */
interface RequestedNames {
  /** Those that a proxy asks for. */
  readonly asked: NameSet;
  /** Those that it had before this stream. */
  readonly had: Iterable<string>;
}

/** What the names are of that a proxy has asked for. */
export interface AskedHosts {
  /** Names of hosts that the mesh does not know. */
  readonly unknown: number;
  /** Names of virtual hosts. */
  readonly hosts: NameSet;
}

/** A name that a proxy has asked for, and the virtual host for it. */
interface FoundName {
  readonly name: string;
  readonly found: FoundHost | undefined;
}

export class SharedDemand {
  readonly names: NameSets;
  readonly learned: LearnedHosts;
  readonly askers = new Askers();
  readonly parts: ClusterParts;
  readonly #clusterNames: ClusterNames;
  readonly #absent: AbsentClusters;
  readonly #table: HostTable;
  readonly #hosts: WeakPairMemo<Bundle, NameSet, WeakMemo<NameSet, HostPart | undefined>>;
  readonly #newOfGiven: () => WeakMemo<NameSet, HostPart | undefined>;
  readonly #ready: WeakMemo<NameSet, NameSet>;
  readonly #lookups: WeakPairMemo<NameSet, readonly string[], NameSet>;
  readonly #named: WeakPairMemo<Bundle, NameSet, NameSet>;
  readonly #askedHosts: WeakPairMemo<Bundle, NameSet, AskedHosts>;
  readonly #everything: WeakPairMemo<Bundle, NameSet, Bundle>;
  readonly #routes: WeakMemo<Bundle, NameSet>;
  readonly #answers = new MadeResources();
  /** Virtual hosts for one name. */
  readonly #restricted = new MadeResources();

  constructor(names: NameSets, memos: Memos, clock: Clock) {
    this.names = names;
    this.learned = new LearnedHosts(names, clock);
    this.#clusterNames = new ClusterNames(names, memos);
    this.#absent = new AbsentClusters(memos);
    this.parts = new ClusterParts(names, this.#clusterNames, memos);
    this.#table = new HostTable(memos);
    this.#hosts = memos.pairs('hosts that were asked for');
    this.#newOfGiven = () => new WeakMemo(memos.enabled);
    this.#ready = memos.weak('names that make route configurations usable');
    this.#lookups = memos.pairs('names of hosts that proxies get without asking');
    this.#named = memos.pairs('hosts by the names of asks');
    this.#askedHosts = memos.pairs('hosts of names that were asked for');
    this.#everything = memos.pairs('all hosts, with answers');
    this.#routes = memos.weak('route configurations with discovery');
  }

  /** Names of the route configurations that use discovery. */
  #routesOf(bundles: readonly Bundle[]): NameSet {
    return bundles.reduce((all, bundle) => {
      const routes = this.#routes.get(bundle, () => this.names.of(bundle.resources().flatMap(({ refs }) => refs)));
      return this.names.change(all, routes, NO_NAMES);
    }, NO_NAMES);
  }

  /** The names that make the route configurations usable that use discovery. */
  readyNames(bundles: readonly Bundle[]): NameSet {
    const routes = this.#routesOf(bundles);
    return this.#ready.get(routes, () => this.names.of(Array.from(routes.names, readyName)));
  }

  /** The clusters that these resources name. */
  clustersOf(bundles: readonly Bundle[]): NameSet {
    return this.#clusterNames.ofBundles(bundles);
  }

  /** The clusters that TCP proxies in these resources ask for when a connection needs them. */
  askableOf(bundles: readonly Bundle[]): NameSet {
    return this.#clusterNames.askable(bundles);
  }

  /** In place of clusters that a proxy has asked for, which its listeners name, and which do not exist. */
  absentOf({ cds, lds }: Pick<Parts, 'cds' | 'lds'>, asked: NameSet): readonly Bundle[] {
    if (asked.size === 0) return [];
    const askable = this.askableOf(lds);
    const exists = (name: string): boolean => cds.some((bundle) => bundle.get(name) !== undefined);
    const absent = [...asked.names].filter((name) => askable.has(name) && !exists(name));
    return absent.length === 0 ? [] : [this.#absent.of(this.names.of(absent))];
  }

  /**
   * The virtual hosts that a proxy gets, and the answers to what it has asked for. Undefined if these are too large.
   * @param previous what it had
   */
  hosts(full: Bundle, wanted: WantedHosts, previous: HostPart | undefined): HostPart | undefined {
    const { asked, given } = wanted;
    const made = this.#hosts.get(full, asked, this.#newOfGiven);
    return made.get(given, () => this.#grownHosts(full, wanted, previous) ?? this.#hostPart(full, wanted, previous));
  }

  #hostPart(full: Bundle, wanted: WantedHosts, previous: HostPart | undefined): HostPart | undefined {
    const asked = this.#found(full, wanted.asked.names);
    const madeBytes = madeBytesOf(asked);
    if (madeBytes > MAX_MADE_BYTES) return undefined;
    const key = onDemand(full);
    const before = previous?.bundle.viewKey === key ? previous.bundle : emptyBundle('vhds', key);
    const resources = new Map<string, EncodedResource | undefined>();
    for (const { name } of before.resources()) resources.set(name, undefined);
    for (const resource of this.#hostsFor(full, asked, wanted.given.names)) resources.set(resource.name, resource);
    const bundle = nextBundle(before, resources);
    return { of: full.ref, wanted, bundle, clusters: this.clustersOf([bundle]), madeBytes };
  }

  /** The same from fewer hosts: a proxy asks for one after the other, and may have a thousand. */
  #grownHosts(full: Bundle, wanted: WantedHosts, previous: HostPart | undefined): HostPart | undefined {
    if (previous === undefined) return undefined;
    if (!isUnconcerned(previous.of, full, [previous.wanted.asked, previous.wanted.given])) return undefined;
    const asked = addedNames(wanted.asked, previous.wanted.asked);
    const given = addedNames(wanted.given, previous.wanted.given);
    if (asked === undefined || given === undefined) return undefined;
    const found = this.#found(full, asked);
    const madeBytes = previous.madeBytes + madeBytesOf(found);
    if (madeBytes > MAX_MADE_BYTES) return undefined;
    const resources = this.#hostsFor(full, found, given);
    const bundle = nextBundle(
      previous.bundle,
      resources.map((each) => [each.name, each] as const),
    );
    const clusters = this.names.of(resources.flatMap((each) => [...this.clustersIn(each)]));
    const all = this.names.change(previous.clusters, clusters, NO_NAMES);
    return { of: full.ref, wanted, bundle, clusters: all, madeBytes };
  }

  /** Whether what is made for the names of a proxy would be too large. @param madeBytes of what it has */
  wouldBeTooLarge(full: Bundle, madeBytes: number, names: Iterable<string>): boolean {
    return madeBytes + madeBytesOf(this.#found(full, names)) > MAX_MADE_BYTES;
  }

  #found(full: Bundle, names: Iterable<string>): readonly FoundName[] {
    return Array.from(names, (name) => {
      const { host } = splitName(name);
      // A host with a wildcard would make a virtual host for all others.
      return { name, found: host === '' || host.includes(ANY) ? undefined : this.#table.find(full, name) };
    });
  }

  #hostsFor(full: Bundle, asked: Iterable<FoundName>, given: Iterable<string>): readonly EncodedResource[] {
    const hosts: EncodedResource[] = [];
    for (const name of given) {
      const host = full.get(name);
      if (host !== undefined && !this.#table.hasWildcards(host)) hosts.push(host);
    }
    for (const each of asked) hosts.push(...this.#answersFor(each));
    return hosts;
  }

  /**
   * The resources that answer a name: the virtual host, and the answer itself, which ends the wait also where the proxy
   * has the host already, or rejects it. A virtual host with wildcards is never sent itself: Envoy would use it for
   * hosts that have another virtual host, and not ask for that.
   */
  #answersFor({ name, found }: FoundName): readonly EncodedResource[] {
    const answer = this.#answerTo(name);
    if (found === undefined) return [answer];
    return [found.hasWildcards ? this.#restrictedTo(name, found) : found.host, answer];
  }

  #answerTo(name: string): EncodedResource {
    return this.#answers.get(name, () => answeredName(name));
  }

  #restrictedTo(asked: string, { host }: FoundHost): EncodedResource {
    const name = madeName(asked);
    const { host: domain } = splitName(asked);
    // The version is a hash of the content.
    return this.#restricted.get(`${host.version} ${name}`, () => restrictedHost(host, { name, domain }));
  }

  /** All virtual hosts, and answers to the names that a proxy has asked for: made for each change of any of the hosts. */
  everything(full: Bundle, asked: NameSet): Bundle {
    return this.#everything.get(full, asked, () => {
      const answers = Array.from(asked.names, (name) => this.#answerTo(name));
      return bundleAfter(
        emptyBundle('vhds', onDemand(full)),
        full,
        answers.map((each) => [each.name, each] as const),
      );
    });
  }

  /** The virtual host that a proxy gets for a name. */
  hostFor(bundle: Bundle, name: string): FoundHost | undefined {
    return this.#table.find(bundle, name);
  }

  /** The same, by its name; undefined for a host that the mesh does not know. */
  knownHost(bundle: Bundle, name: string): string | undefined {
    const found = this.hostFor(bundle, name);
    return isKnown(found) ? found.host.name : undefined;
  }

  askedHosts(bundle: Bundle, asked: NameSet): AskedHosts {
    return this.#askedHosts.get(bundle, asked, () => {
      const found = Array.from(asked.names, (name) => this.hostFor(bundle, name)).filter(isKnown);
      return { unknown: asked.size - found.length, hosts: this.names.of(found.map(({ host }) => host.name)) };
    });
  }

  /**
   * Which of these virtual hosts are generated and only lead to clusters that are, and what is not: that is generated
   * now.
   * @param clusters that the proxy gets without a virtual host
   */
  usable(
    bundle: Bundle,
    { hosts, clusters }: { readonly hosts: NameSet; readonly clusters: NameSet },
    later: LaterClusters | undefined,
    laterHosts: LaterHosts | undefined,
  ): { readonly usable: NameSet; readonly awaited: NameSet } {
    const isLater = (cluster: string): boolean => later?.has(cluster) === true;
    const awaited = new Set([...clusters.names].filter(isLater));
    const awaitedHosts = new Set<string>();
    const usable = [...hosts.names].filter((name) => {
      // Clusters that were learned are among the names.
      if (!isOutbound(name) && laterHosts?.has(name) === true) {
        awaitedHosts.add(name);
        return false;
      }
      const host = bundle.get(name);
      const missing = host === undefined ? [] : [...this.clustersIn(host)].filter(isLater);
      for (const cluster of missing) awaited.add(cluster);
      return missing.length === 0;
    });
    if (awaited.size + awaitedHosts.size === 0) return { usable: hosts, awaited: NO_NAMES };
    laterHosts?.want(awaitedHosts);
    later?.want(awaited);
    return { usable: this.names.of(usable), awaited: this.names.of([...awaited, ...awaitedHosts]) };
  }

  /** The clusters that names of a type lead to, and those that the other content of a proxy leads to. */
  clustersFor(type: XdsType, { asked, had }: RequestedNames, { lds, rds, ecds, vhds }: Parts): ReadonlySet<string> {
    const clusters = new Set(this.clustersOf([...lds, ...rds, ...ecds]).names);
    if (type === 'cds') for (const name of [...asked.names, ...had]) clusters.add(name);
    const bundle = type === 'vhds' ? outboundOf(vhds) : undefined;
    if (bundle === undefined) return clusters;
    const ofAsked = Array.from(asked.names, (name) => this.hostFor(bundle, name)?.host);
    const ofHad = Array.from(had, (name) => bundle.get(name));
    for (const host of [...ofAsked, ...ofHad])
      if (host !== undefined) for (const cluster of this.clustersIn(host)) clusters.add(cluster);
    return clusters;
  }

  /** The clusters that a resource names. */
  clustersIn(resource: EncodedResource): ReadonlySet<string> {
    return this.#clusterNames.ofResource(resource);
  }

  /** The names under which a proxy would ask for these hosts. */
  namesOf(routes: readonly Bundle[], hosts: readonly string[]): NameSet {
    return this.#lookups.get(this.#routesOf(routes), hosts, () => {
      const configurations = [...this.#routesOf(routes).names];
      return this.names.of(configurations.flatMap((each) => hosts.map((host) => `${each}/${host}`)));
    });
  }

  /** The virtual hosts for names, but those of which a proxy only gets a part. */
  hostsOf(bundle: Bundle, names: NameSet): NameSet {
    return this.#named.get(bundle, names, () => {
      const found = Array.from(names.names, (name) => this.#table.find(bundle, name));
      return this.names.of(found.flatMap((each) => (each === undefined || each.hasWildcards ? [] : [each.host.name])));
    });
  }
}

/** The bundle with the virtual hosts of outbound routes; other parts have none. */
export function outboundOf(bundles: readonly Bundle[]): Bundle | undefined {
  return bundles.reduce<Bundle | undefined>(
    (largest, bundle) => (largest === undefined || bundle.size > largest.size ? bundle : largest),
    undefined,
  );
}

function madeBytesOf(names: readonly FoundName[]): number {
  return names.reduce((sum, { found }) => sum + (found?.hasWildcards === true ? found.host.fragment.length : 0), 0);
}
