/**
 * What a proxy says of where it runs, reduced to what endpoints are told apart by: proxies that nothing tells apart are
 * to be alike, and whatever a proxy says, there are no more classes than the configuration makes.
 */
import type { Memos } from '../../core/memo.ts';
import { placesOfLocality } from '../../model/places.ts';
import type { Endpoint, MergedDestinationRule, MeshSnapshot, Snapshot } from '../../model/types.ts';
import type { MeshConfig, MeshNetworks } from '../../resources/mesh-config.ts';
import type { LocalityLbSetting, TrafficPolicy } from '../../resources/schemas.ts';
import { localityMatches } from './locality.ts';
import { networkGateways } from './networks.ts';

/** Stands for a region, zone or subzone that nothing speaks of. */
const ELSEWHERE = '*';

/** The network that a proxy is in, as far as it matters: '' for all networks that have no gateway. */
export function networkClass(memos: Memos, networks: MeshNetworks, network: string): string {
  return networkGateways(memos, networks).byNetwork.has(network) ? network : '';
}

const NO_NETWORKS: ReadonlySet<string> = new Set();

/** Which networks with gateways these endpoints are in. */
function networksOf(memos: Memos, networks: MeshNetworks, endpoints: readonly Endpoint[]): ReadonlySet<string> {
  const { byNetwork } = networkGateways(memos, networks);
  if (byNetwork.size === 0) return NO_NETWORKS;
  const memo = memos.pairs<MeshNetworks, readonly Endpoint[], ReadonlySet<string>>('networks of endpoints');
  return memo.get(networks, endpoints, () => {
    const found = new Set<string>();
    for (const { network } of endpoints) if (byNetwork.has(network)) found.add(network);
    return found;
  });
}

/** A network from which these endpoints are reached as from this one, the same for all networks of which that is so. */
export function networkOfEndpoints(
  memos: Memos,
  networks: MeshNetworks,
  endpoints: readonly Endpoint[],
  network: string,
): string {
  const found = networksOf(memos, networks, endpoints);
  // All of the endpoints' networks are foreign to it, and '' stands for such a network unless it is one of them.
  return found.has(network) || found.has('') ? network : '';
}

/** Whether load assignments of these endpoints may differ from place to place. */
export function readsPlacement(
  memos: Memos,
  { mesh, networks }: Pick<MeshSnapshot, 'mesh' | 'networks'>,
  endpoints: readonly Endpoint[],
  rule: MergedDestinationRule | undefined,
): boolean {
  return readsLocalityOf(mesh, rule) || networksOf(memos, networks, endpoints).size > 0;
}

/** What the rules of a mesh read of localities. */
interface LocalityReads {
  /** Whether they read them at all: some rule distributes by them, or prefers what is near. */
  readonly any: boolean;
  /** Regions, zones and subzones that rules speak of. */
  readonly named: readonly [regions: ReadonlySet<string>, zones: ReadonlySet<string>, subzones: ReadonlySet<string>];
  /** Names all of this. */
  readonly text: string;
}

function localityReads(snapshot: MeshSnapshot): LocalityReads {
  const { memos, mesh } = snapshot;
  const rules = snapshot.resources('DestinationRule');
  return memos.pairs<typeof rules, MeshConfig, LocalityReads>('localities that rules read').get(rules, mesh, () => {
    const { localityLbSetting: setting } = mesh;
    const contents = rules.sorted().map(([, { content }]) => content);
    const any = setting?.enabled !== false && (distributes(setting) || contents.some(isLocal));
    const named = [new Set<string>(), new Set<string>(), new Set<string>()] as const;
    for (const each of any ? [setting, ...contents.flatMap(settingsOf)] : []) {
      for (const { from = '' } of [...(each?.distribute ?? []), ...(each?.failover ?? [])])
        for (const [index, part] of from.split('/').entries()) named[index]?.add(part);
    }
    return { any, named, text: JSON.stringify([any, ...named.map((names) => [...names].sort())]) };
  });
}

const NO_PLACES: ReadonlySet<string> = new Set();

/**
 * Regions, zones and subzones that come or go from one snapshot to the next, as far as rules tell proxies apart by
 * them; undefined when the rules read localities otherwise than before.
 */
export function changedPlaces(previous: Snapshot, next: Snapshot): ReadonlySet<string> | undefined {
  const reads = localityReads(next);
  if (reads.text !== localityReads(previous).text) return undefined;
  if (!reads.any || previous.places === next.places) return NO_PLACES;
  return previous.places.symmetricDifference(next.places);
}

/**
 * A locality that stands for this one in the whole mesh; '' where nothing reads any. Parts that neither endpoints nor
 * rules have are all alike, so that there are no more classes than the mesh makes, whatever proxies say.
 * @param isPlace whether endpoints are in a region, zone or subzone
 */
export function localityOfMesh(snapshot: MeshSnapshot, isPlace: (place: string) => boolean, locality: string): string {
  const { any, named } = localityReads(snapshot);
  if (!any || locality === '') return '';
  const stands: string[] = [];
  for (const [index, part] of locality.split('/').slice(0, 3).entries()) {
    const known = part === '' || named[index]?.has(part) === true || isPlace([...stands, part].join('/'));
    stands.push(known ? part : ELSEWHERE);
  }
  return stands.join('/');
}

/** Whether the load assignments of a service may differ from locality to locality. */
export function readsLocalityOf(mesh: MeshConfig, rule: MergedDestinationRule | undefined): boolean {
  // Switched off for the mesh, no proxy has a locality: see `localityReads`.
  if (mesh.localityLbSetting.enabled === false) return false;
  return distributes(mesh.localityLbSetting) || (rule !== undefined && isLocal(rule));
}

/** What of a destination rule is looked at. */
interface Rule {
  readonly trafficPolicy?: TrafficPolicy | undefined;
  readonly subsets?: readonly { readonly trafficPolicy?: TrafficPolicy | undefined }[] | undefined;
}

function isLocal(rule: Rule): boolean {
  return [rule, ...(rule.subsets ?? [])].some(({ trafficPolicy }) =>
    [trafficPolicy, ...(trafficPolicy?.portLevelSettings ?? [])].some(
      (policy) => policy?.outlierDetection !== undefined || distributes(policy?.loadBalancer?.localityLbSetting),
    ),
  );
}

function settingsOf(rule: Rule): (LocalityLbSetting | undefined)[] {
  return [rule, ...(rule.subsets ?? [])].flatMap(({ trafficPolicy }) =>
    [trafficPolicy, ...(trafficPolicy?.portLevelSettings ?? [])].map(
      (policy) => policy?.loadBalancer?.localityLbSetting,
    ),
  );
}

function distributes(setting: LocalityLbSetting | undefined): boolean {
  return (setting?.distribute?.length ?? 0) > 0;
}

/** Regions, zones (`region/zone`) and subzones of these endpoints. */
function placesOfEndpoints(memos: Memos, endpoints: readonly Endpoint[]): ReadonlySet<string> {
  return memos.weak<readonly Endpoint[], ReadonlySet<string>>('places of endpoints').get(endpoints, () => {
    const found = new Set<string>();
    for (const { locality } of endpoints) for (const place of placesOfLocality(locality)) found.add(place);
    return found;
  });
}

/**
 * A locality that is treated as this one for these endpoints, the same for all that are treated alike; '' for those
 * that prefer nothing. So of any number of localities that proxies say, those count that endpoints are in or rules
 * speak of.
 */
export function localityClass(
  memos: Memos,
  endpoints: readonly Endpoint[],
  { distribute, failover }: LocalityLbSetting,
  locality: string,
): string {
  if (distribute !== undefined && distribute.length > 0)
    return distribute.find(({ from }) => from !== undefined && localityMatches(from, locality))?.from ?? '';
  const [region = '', zone = '', subzone = ''] = locality.split('/');
  const places = placesOfEndpoints(memos, endpoints);
  if (!places.has(region)) return failover?.some(({ from }) => from === region) === true ? region : '';
  if (!places.has(`${region}/${zone}`)) return `${region}/${ELSEWHERE}`;
  if (!places.has(`${region}/${zone}/${subzone}`)) return `${region}/${zone}/${ELSEWHERE}`;
  return locality;
}
