/**
 * The clusters that a change leads proxies to. Resources that name clusters must not arrive before these: a change that
 * names clusters of which a view has none yet is generated together with them.
 */
import { type GeneratedType, hostOfCluster, type Unit } from '../../generate/index.ts';
import type { JobAnswer } from '../protocol.ts';
import type { EncodedResource, LeadsTo } from '../types.ts';
import { type JobChanges, resourceChanges, type Units } from './job-changes.ts';
import type { LaterUnits } from './later-clusters.ts';

/** Types whose resources proxies have without asking for them. */
const OF_ALL: readonly GeneratedType[] = ['lds', 'rds', 'ecds'];

/** After so many repetitions a job is generated with all clusters: changes may lead to others each time. */
const MAX_REPEATS = 3;

/** Which jobs of a view are to be repeated. */
export class LedClusters {
  readonly #later: LaterUnits;
  readonly #leadsTo: LeadsTo | undefined;
  /** How often the next job was generated already, and led to clusters that it did not have. */
  #repeats = 0;

  constructor(later: LaterUnits, leadsTo: LeadsTo | undefined) {
    this.#later = later;
    this.#leadsTo = leadsTo;
  }

  /**
   * Whether a job leads proxies to clusters that the view does not have: then it is to be repeated with these.
   * @param current the units before the change
   * @param generated types that proxies may have units of
   */
  needs(
    { units, failures }: JobAnswer,
    changes: JobChanges,
    current: Units,
    generated: ReadonlySet<GeneratedType>,
  ): boolean {
    const [later, leadsTo] = [this.#later, this.#leadsTo];
    const made = new Set([...units, ...failures].flatMap(({ type, unit }) => (type === 'cds' ? [unit] : [])));
    const isLater = (cluster: string): boolean => later.has(cluster) && !made.has(hostOfCluster(cluster));
    const led = leadsTo && clustersLedTo(changes, current, { leadsTo, isLater, hasHosts: generated.has('vhds') });
    if (led?.size === 0 || later.unwanted.difference(made).size === 0) return false;
    this.#repeats++;
    if (led === undefined || this.#repeats > MAX_REPEATS) later.wantUnits(undefined);
    else later.want(led);
    return true;
  }

  /** A job was committed. */
  committed(): void {
    this.#repeats = 0;
  }
}

interface LedOptions {
  readonly leadsTo: LeadsTo;
  /** Whether a cluster is not generated. */
  readonly isLater: (cluster: string) => boolean;
  /** Whether virtual hosts were generated before: else no proxy has any, and each waits for the clusters of its first. */
  readonly hasHosts: boolean;
}

function clustersLedTo(changes: JobChanges, current: Units, { leadsTo, isLater, hasHosts }: LedOptions): Set<string> {
  const found = new Set<string>();
  const add = (resource: EncodedResource): void => {
    for (const cluster of leadsTo.clusters(resource)) if (isLater(cluster)) found.add(cluster);
  };
  for (const type of OF_ALL)
    for (const resource of resourceChanges(current[type], changes.units[type]).values())
      if (resource !== undefined) add(resource);
  for (const [unit, hosts] of hasHosts ? changes.units.vhds : []) {
    const former = current.vhds.get(unit) ?? [];
    const before = new Map(former.map((host) => [host.name, host]));
    const changed = changedHosts(before, resourceChanges(current.vhds, new Map([[unit, hosts]])));
    for (const [name, host] of changed) if (host !== undefined && mayBeHeld(host, before.get(name))) add(host);
    // A host without a virtual host of its own has one with a wildcard.
    if (changed.some(([name]) => before.has(name)))
      for (const host of hosts ?? former) if (leadsTo.hasWildcards(host)) add(host);
  }
  return found;

  /** Virtual hosts of which the clusters are generated may be held, and others may get hosts of these. */
  function mayBeHeld(host: EncodedResource, last: EncodedResource | undefined): boolean {
    if (last === undefined || leadsTo.hasMoreDomains(host, last)) return true;
    return leadsTo
      .clusters(last)
      .values()
      .every((cluster) => !isLater(cluster));
  }
}

function changedHosts(
  before: ReadonlyMap<string, EncodedResource>,
  after: ReadonlyMap<string, EncodedResource | undefined>,
): (readonly [Unit, EncodedResource | undefined])[] {
  return [...after].filter(([name, host]) => host !== before.get(name));
}
