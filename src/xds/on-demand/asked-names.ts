/** The names that a proxy has asked for on its stream. */
import { limitNames, type NameSet, type NameSets, NO_NAMES } from '../protocol/index.ts';
import { isOutbound } from './cluster-names.ts';
import { isOwnName } from './own-names.ts';

/** More names than a workload calls. A proxy that has asked for more gets everything. */
export const MAX_ASKED = 1024;

const WILDCARD = '*';

/** The names of virtual hosts among these, as a proxy asks for them or reports them. */
export function hostsIn(names: Iterable<string>): readonly string[] {
  return [...names].filter((name) => name !== WILDCARD && !isOwnName(name));
}

/** The names of clusters among these that a proxy asks for. */
export function clustersIn(names: Iterable<string>): readonly string[] {
  return [...names].filter(isOutbound);
}

export class AskedNames {
  readonly #names: NameSets;
  #hosts = NO_NAMES;
  #clusters = NO_NAMES;

  constructor(names: NameSets) {
    this.#names = names;
  }

  get hosts(): NameSet {
    return this.#hosts;
  }

  /** For TCP, Envoy asks for clusters. */
  get clusters(): NameSet {
    return this.#clusters;
  }

  get size(): number {
    return this.#hosts.size + this.#clusters.size;
  }

  get isOverLimit(): boolean {
    return this.size > MAX_ASKED;
  }

  /** Whether more names than that are asked for with those of a request. */
  wouldExceed(type: string, subscribe: NameSet): boolean {
    return this.size + this.newIn(type, subscribe).length > MAX_ASKED;
  }

  /** The names in a request that were not asked for before. */
  newIn(type: string, { names }: NameSet): readonly string[] {
    if (type === 'vhds') return hostsIn(names).filter((name) => !this.#hosts.has(name));
    return type === 'cds' ? clustersIn(names).filter((name) => !this.#clusters.has(name)) : [];
  }

  /**
   * Adds the names of a request: they stay, also where the proxy drops them. Throws CtlError invalid_argument if there
   * are too many.
   * @returns those that are new
   */
  add(type: 'vhds' | 'cds', subscribe: NameSet): readonly string[] {
    const added = this.newIn(type, subscribe);
    const before = type === 'vhds' ? this.#hosts : this.#clusters;
    limitNames(before.size + added.length);
    const after = this.#names.change(before, this.#names.of(added), NO_NAMES);
    if (type === 'vhds') this.#hosts = after;
    else this.#clusters = after;
    return added;
  }

  /** The names of a type that are kept for the proxy. @param subscribed those that it subscribes to */
  kept(type: string, subscribed: NameSet): NameSet {
    if (type === 'vhds') return this.#hosts.size > 0 ? this.#hosts : subscribed;
    return type === 'cds' ? this.#names.change(subscribed, this.#clusters, NO_NAMES) : subscribed;
  }
}
