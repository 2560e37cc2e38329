/**
 * What a proxy says of where it runs, reduced to what endpoints are told apart by: proxies that nothing tells apart are to be alike, and
 * whatever a proxy says, there are no more classes than the configuration makes.
 */
import type { Endpoint, MergedDestinationRule, Snapshot } from '../../model/types.ts';
import type { MeshConfig, MeshNetworks } from '../../resources/mesh-config.ts';
import type { LocalityLbSetting, TrafficPolicy } from '../../resources/schemas.ts';
import { localityMatches } from './locality.ts';
import { networkGateways } from './networks.ts';

/** The network that a proxy is in, as far as it matters: '' for all networks that have no gateway. */
export function networkClass(networks: MeshNetworks, network: string): string {
  return networkGateways(networks).byNetwork.has(network) ? network : '';
}

const localityRules = new WeakMap<object, boolean>();

/** Whether the proxies' localities decide anything in the mesh: some rule distributes by them, or prefers what is near. */
export function readsLocality(snapshot: Snapshot): boolean {
  const { localityLbSetting } = snapshot.mesh;
  if (localityLbSetting?.enabled === false) return false;
  if (distributes(localityLbSetting)) return true;
  const rules = snapshot.resources('DestinationRule');
  let reads = localityRules.get(rules);
  if (reads === undefined) {
    reads = rules.sorted().some(([, { content }]) => isLocal(content));
    localityRules.set(rules, reads);
  }
  return reads;
}

/** Whether the load assignments of a service may differ from locality to locality. */
export function readsLocalityOf(mesh: MeshConfig, rule: MergedDestinationRule | undefined): boolean {
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

function distributes(setting: LocalityLbSetting | undefined): boolean {
  return (setting?.distribute?.length ?? 0) > 0;
}

/** Of each list of endpoints: its regions, zones (`region/zone`) and subzones. */
const placesOf = new WeakMap<readonly Endpoint[], ReadonlySet<string>>();

function placesOfEndpoints(endpoints: readonly Endpoint[]): ReadonlySet<string> {
  let places = placesOf.get(endpoints);
  if (places === undefined) {
    const found = new Set<string>();
    for (const { locality } of endpoints) {
      const [region = '', zone = '', subzone = ''] = locality.split('/');
      found.add(region).add(`${region}/${zone}`).add(`${region}/${zone}/${subzone}`);
    }
    places = found;
    placesOf.set(endpoints, places);
  }
  return places;
}

/** Stands for a zone or subzone in which there are no endpoints. */
const ELSEWHERE = '*';

/**
 * A locality that is treated as this one for these endpoints, the same for all that are treated alike; '' for those that prefer
 * nothing. So of any number of localities that proxies say, those count that endpoints are in or rules speak of.
 */
export function localityClass(
  endpoints: readonly Endpoint[],
  { distribute, failover }: LocalityLbSetting,
  locality: string,
): string {
  if (distribute !== undefined && distribute.length > 0)
    return distribute.find(({ from }) => from !== undefined && localityMatches(from, locality))?.from ?? '';
  const [region = '', zone = '', subzone = ''] = locality.split('/');
  const places = placesOfEndpoints(endpoints);
  if (!places.has(region)) return failover?.some(({ from }) => from === region) === true ? region : '';
  if (!places.has(`${region}/${zone}`)) return `${region}/${ELSEWHERE}`;
  if (!places.has(`${region}/${zone}/${subzone}`)) return `${region}/${zone}/${ELSEWHERE}`;
  return locality;
}
