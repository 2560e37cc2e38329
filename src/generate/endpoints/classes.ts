/**
 * Reduces the network and locality that a proxy reports to classes: proxies that need not be distinguished are in the
 * same class, so the number of classes is limited by the configuration, whatever proxies report.
 */
import type { Memos } from '../../core/memo.ts';
import {
  type Endpoint,
  type MergedDestinationRule,
  type MeshSnapshot,
  namesOfLocality,
  type Service,
  type Snapshot,
} from '../../model/index.ts';
import type { LocalityLbSetting, MeshConfig, MeshNetworks, TrafficPolicy } from '../../resources/index.ts';
import type { Placement } from '../views.ts';
import { readsCluster } from './cluster-local.ts';
import { comparedLabels } from './failover-priority.ts';
import { localityMatches } from './locality.ts';
import { networksOf, separateNetworks } from './networks.ts';

/** Replaces a region, zone or subzone that no rule and no endpoint names. */
const ELSEWHERE = '*';

/** The class of a proxy's network: '' for all networks without gateways. */
export function networkClass(memos: Memos, networks: MeshNetworks, network: string): string {
  return separateNetworks(memos, networks).has(network) ? network : '';
}

/** The network that represents all networks from which these endpoints are reached in the same way. */
export function networkOfEndpoints(
  memos: Memos,
  networks: MeshNetworks,
  endpoints: readonly Endpoint[],
  network: string,
): string {
  const found = networksOf(memos, networks, endpoints);
  // Without it, all endpoints are in other networks, which '' represents unless it is one of them.
  return found.has(network) || found.has('') ? network : '';
}

/** Whether load assignments of these endpoints of a service may differ between placements. */
export function readsPlacement(
  snapshot: Pick<MeshSnapshot, 'mesh' | 'networks' | 'settings' | 'memos'>,
  { hostname }: Pick<Service, 'hostname'>,
  endpoints: readonly Endpoint[],
  rule: MergedDestinationRule | undefined,
): boolean {
  const { mesh, networks, memos } = snapshot;
  return (
    readsLocalityOf(mesh, rule) ||
    networksOf(memos, networks, endpoints).size > 0 ||
    readsCluster(snapshot, hostname, endpoints)
  );
}

/** The parts of localities that the rules of a mesh read. */
interface LocalityReads {
  /** Whether any rule reads localities: distributes by them, or prefers near endpoints. */
  readonly any: boolean;
  /** Regions, zones and subzones that rules name. */
  readonly named: readonly [regions: ReadonlySet<string>, zones: ReadonlySet<string>, subzones: ReadonlySet<string>];
  /** Labels of proxies that rules compare. */
  readonly labels: ReadonlySet<string>;
  /** All of this as a string, for comparison. */
  readonly text: string;
}

function localityReads(snapshot: MeshSnapshot): LocalityReads {
  const { memos, mesh } = snapshot;
  const rules = snapshot.resources('DestinationRule');
  return memos.pairs<typeof rules, MeshConfig, LocalityReads>('localities that rules read').get(rules, mesh, () => {
    const { localityLbSetting: setting } = mesh;
    const contents = rules.sorted().map(([, { content }]) => content);
    const isOn = isEnabled(setting);
    const any = (isOn && distributes(setting)) || contents.some((rule) => isLocal(rule, isOn));
    const named = [new Set<string>(), new Set<string>(), new Set<string>()] as const;
    for (const each of any ? [setting, ...contents.flatMap(settingsOf)] : []) {
      for (const { from = '' } of [...(each?.distribute ?? []), ...(each?.failover ?? [])])
        for (const [index, part] of from.split('/').entries()) named[index]?.add(part);
    }
    const labels = new Set(any ? [setting, ...contents.flatMap(settingsOf)].flatMap(comparedLabels) : []);
    const text = JSON.stringify([any, ...[labels, ...named].map((names) => [...names].sort())]);
    return { any, named, labels, text };
  });
}

const NO_NAMES: ReadonlySet<string> = new Set();

/**
 * Regions, zones and subzones that were added or removed between two snapshots, if rules distinguish proxies by them;
 * undefined if the rules now read different parts of localities.
 */
export function changedLocalityNames(previous: Snapshot, next: Snapshot): ReadonlySet<string> | undefined {
  const reads = localityReads(next);
  if (reads.text !== localityReads(previous).text) return undefined;
  if (!reads.any || previous.localityNames === next.localityNames) return NO_NAMES;
  return previous.localityNames.symmetricDifference(next.localityNames);
}

/**
 * The locality that represents this one in the whole mesh; '' if localities are not read. Parts that neither endpoints
 * nor rules have are replaced, so that the number of classes is limited, whatever proxies report. @param isKnown
 * whether there are endpoints in a region, zone or subzone
 */
export function localityOfMesh(snapshot: MeshSnapshot, isKnown: (name: string) => boolean, locality: string): string {
  const { any, named } = localityReads(snapshot);
  if (!any || locality === '') return '';
  const parts: string[] = [];
  for (const [index, part] of locality.split('/').slice(0, 3).entries()) {
    const known = part === '' || named[index]?.has(part) === true || isKnown([...parts, part].join('/'));
    parts.push(known ? part : ELSEWHERE);
  }
  return parts.join('/');
}

/** The labels of proxies that some rule of the mesh compares with those of endpoints. */
export function comparedLabelsOfMesh(snapshot: MeshSnapshot): ReadonlySet<string> {
  return localityReads(snapshot).labels;
}

/** Whether the load assignments of a service may differ between localities. */
export function readsLocalityOf(mesh: MeshConfig, rule: MergedDestinationRule | undefined): boolean {
  const isOn = isEnabled(mesh.localityLbSetting);
  return (isOn && distributes(mesh.localityLbSetting)) || (rule !== undefined && isLocal(rule, isOn));
}

/** Whether a setting, of the mesh or of a rule, is in force. */
export function isEnabled(setting: LocalityLbSetting): boolean {
  return setting.enabled !== false;
}

/** The fields of a destination rule that are read here. */
interface Rule {
  readonly trafficPolicy?: TrafficPolicy | undefined;
  readonly subsets?: readonly { readonly trafficPolicy?: TrafficPolicy | undefined }[] | undefined;
}

/**
 * @param meshIsOn whether the setting of the mesh applies to rules without their own
 */
function isLocal(rule: Rule, meshIsOn: boolean): boolean {
  // It is not checked which of these settings apply to the same cluster, so slightly more proxies are distinguished
  // than necessary.
  const isOn = meshIsOn || settingsOf(rule).some((setting) => setting !== undefined && isEnabled(setting));
  if (!isOn) return false;
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

/**
 * The values of the labels that a rule, or the mesh, compares, as JSON, so that they are compared by value; '' if none
 * is compared. Labels that only rules of other hosts compare are ignored.
 */
export function labelsRead(
  { localityLbSetting }: MeshConfig,
  rule: MergedDestinationRule | undefined,
  labels: Placement['labels'],
): string {
  if (labels === undefined) return '';
  const settings = [localityLbSetting, ...(rule === undefined ? [] : settingsOf(rule))];
  const names = new Set(settings.flatMap(comparedLabels));
  const read = Object.entries(labels).filter(([name]) => names.has(name));
  return read.length === 0 ? '' : JSON.stringify(Object.fromEntries(read));
}

function distributes(setting: LocalityLbSetting | undefined): boolean {
  return (setting?.distribute?.length ?? 0) > 0;
}

/** Regions, zones (`region/zone`) and subzones of these endpoints. */
function placesOfEndpoints(memos: Memos, endpoints: readonly Endpoint[]): ReadonlySet<string> {
  return memos.weak<readonly Endpoint[], ReadonlySet<string>>('places of endpoints').get(endpoints, () => {
    const found = new Set<string>();
    for (const { locality } of endpoints) for (const place of namesOfLocality(locality)) found.add(place);
    return found;
  });
}

/**
 * The locality that represents all localities that are equivalent to this one for these endpoints; '' for localities
 * without any preference. Only localities of endpoints and rules are distinguished, whatever proxies report.
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
