/**
 * Reduces the network and locality that a proxy reports to classes: proxies that nothing distinguishes are in one
 * class, and whatever proxies report, there are no more classes than the configuration makes.
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
import type { Placement } from '../types.ts';
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
  // All of the endpoints' networks are foreign to it, and '' represents such a network unless it is one of them.
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

/** What the rules of a mesh read of localities. */
interface LocalityReads {
  /** Whether they read them at all: some rule distributes by them, or prefers near ones. */
  readonly any: boolean;
  /** Regions, zones and subzones that rules name. */
  readonly named: readonly [regions: ReadonlySet<string>, zones: ReadonlySet<string>, subzones: ReadonlySet<string>];
  /** Labels of proxies that rules compare. */
  readonly labels: ReadonlySet<string>;
  /** All of this as text, for comparison. */
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
 * Regions, zones and subzones that were added or removed between two snapshots, as far as rules distinguish proxies by
 * them; undefined when the rules read localities differently than before.
 */
export function changedLocalityNames(previous: Snapshot, next: Snapshot): ReadonlySet<string> | undefined {
  const reads = localityReads(next);
  if (reads.text !== localityReads(previous).text) return undefined;
  if (!reads.any || previous.localityNames === next.localityNames) return NO_NAMES;
  return previous.localityNames.symmetricDifference(next.localityNames);
}

/**
 * The locality that represents this one in the whole mesh; '' where nothing reads any. Parts that neither endpoints nor
 * rules have are replaced, so that there are no more classes than the mesh makes, whatever proxies report.
 * @param isKnown whether endpoints are in a region, zone or subzone
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

/** @param meshIsOn whether rules without a setting of their own have the mesh's */
function isLocal(rule: Rule, meshIsOn: boolean): boolean {
  // Which of these settings meet in a cluster is not looked at: a few more proxies than needed are told apart.
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
 * The values of the labels that a rule, or the mesh, compares, as JSON, so that they are compared by value; '' where
 * none is compared. The labels that only rules of other hosts compare make no difference.
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
 * The locality that represents all localities treated like this one for these endpoints; '' for those without any
 * preference. Whatever localities proxies report, only those of endpoints and rules count.
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
