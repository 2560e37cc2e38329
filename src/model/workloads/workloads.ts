/**
 * The workload at an address: a Pod, a WorkloadEntry, or only the address. Every lookup is recorded as a read, so that
 * a later change (or creation) of the object recomputes the result.
 */
import type { PMap } from '../../core/pmap.ts';
import { type Resource, resourceKey, type WorkloadEntrySpec } from '../../resources/index.ts';
import { type Groups, membersOf } from '../common/groups.ts';
import type { Labels } from '../common/labels.ts';
import { addressId, type NetworkFinder } from '../common/networks.ts';
import type { PeerPolicies } from '../policies/peer-authentication.ts';
import type { Endpoint, Health, RegistryKind, WorkloadResource } from '../types/types.ts';

/** The name of a cluster; undefined for the program's own. */
export type Cluster = string | undefined;

/** An endpoint without ports. */
export type Workload = Omit<Endpoint, 'port' | 'servicePort'>;

export interface WorkloadIndexes {
  resources<K extends RegistryKind>(kind: K): PMap<Resource<K>>;
  /** IP address (`addressId`) → keys of the pods that have it, in any cluster. */
  readonly podsByIp: Groups;
  readonly networkOf: NetworkFinder;
  readonly peerPolicies: PeerPolicies;
}

/** The read of the owners of an address (in the form of `addressId`): Pods, virtual IPs, endpoints. */
export const ADDRESS_READ = 'ip:';

/** The prefix of the read of the policies of a namespace. */
export const POLICY_READ = 'auth:';

/** The keys that were read: Pods and Nodes, `ip:address`, `auth:ns`. */
export type Reads = Set<string>;

const LOCALITY_LABEL = 'mesh-locality';
export const NETWORK_LABEL = 'topology.mesh.io/network';
const TLS_MODE_LABEL = 'security.mesh.io/tlsMode';
const NO_LABELS: Labels = {};

/**
 * `region/zone/subzone` of a node's labels (current names, then the orchestrator's older ones); '' when it has none.
 */
export function nodeLocality(labels: Labels): string {
  const region = labels['topology.kubernetes.io/region'] ?? labels['failure-domain.beta.kubernetes.io/region'] ?? '';
  const zone = labels['topology.kubernetes.io/zone'] ?? labels['failure-domain.beta.kubernetes.io/zone'] ?? '';
  return joinLocality(region, zone, labels['topology.mesh.io/subzone'] ?? '');
}

export function joinLocality(region: string, zone: string, subzone: string): string {
  return region === '' && zone === '' && subzone === '' ? '' : `${region}/${zone}/${subzone}`;
}

/** `region`, `region/zone` or `region/zone/subzone`, extended to three parts; '' stays ''. */
export function fullLocality(locality: string): string {
  const [region = '', zone = '', subzone = ''] = locality.split('/');
  return joinLocality(region, zone, subzone);
}

/** Labels cannot contain `/`, so localities in labels are written with dots. */
function labelLocality(labels: Labels): string | undefined {
  const written = labels[LOCALITY_LABEL];
  if (written === undefined || written === '') return undefined;
  return fullLocality(written.includes('/') ? written : written.replaceAll('.', '/'));
}

export function localityOfNode(
  name: string | undefined,
  cluster: Cluster,
  indexes: WorkloadIndexes,
  reads: Reads,
): string {
  if (name === undefined || name === '') return '';
  const key = resourceKey('Node', '', name, cluster);
  reads.add(key);
  const node = indexes.resources('Node').get(key);
  return node === undefined ? '' : nodeLocality(node.meta.labels);
}

/** Whether a workload's label says that it accepts mutual TLS of the mesh. */
export function isTlsReady(labels: Labels): boolean {
  const mode = labels[TLS_MODE_LABEL];
  return mode === 'mesh' || mode === 'istio';
}

/**
 * A workload entry without a mode accepts mutual TLS when it has a service account (Istio 1.7:
 * `getTLSModeFromWorkloadEntry`).
 */
function isEntryTlsReady(labels: Labels, serviceAccount: string | undefined): boolean {
  return labels[TLS_MODE_LABEL] === undefined
    ? serviceAccount !== undefined && serviceAccount !== ''
    : isTlsReady(labels);
}

export function podAddresses(pod: Resource<'Pod'>): readonly string[] {
  const { podIP = '', podIPs = [] } = pod.content.status ?? {};
  if (podIP !== '' && podIPs.every(({ ip }) => ip === podIP)) return [podIP];
  const addresses = new Set<string>();
  if (podIP !== '') addresses.add(podIP);
  for (const { ip } of podIPs) if (ip !== '') addresses.add(ip);
  return [...addresses];
}

/**
 * Addresses that identify a Pod: none for a finished Pod, whose address may now belong to another Pod, and none for a
 * Pod with hostNetwork, which has the address of its node.
 */
export function ownAddresses(pod: Resource<'Pod'>): readonly string[] {
  return isFinished(pod) || pod.content.spec.hostNetwork === true ? [] : podAddresses(pod);
}

/** Addresses of a Pod with hostNetwork. */
export function addressesOfNode(pod: Resource<'Pod'>): readonly string[] {
  return !isFinished(pod) && pod.content.spec.hostNetwork === true ? podAddresses(pod) : [];
}

export function isFinished(pod: Resource<'Pod'>): boolean {
  const phase = pod.content.status?.phase;
  return phase === 'Succeeded' || phase === 'Failed';
}

/** Whether the Pod has the address now, which is false for a finished Pod. */
export function hasAddress(pod: Resource<'Pod'>, address: string): boolean {
  return !isFinished(pod) && podAddresses(pod).includes(address);
}

/** Health from the pod's status, for services that select pods without Endpoints. */
export function podHealth(pod: Resource<'Pod'>): Health {
  const ready = pod.content.status?.conditions?.find(({ type }) => type === 'Ready');
  if (ready !== undefined && ready.status !== 'True') return 'unhealthy';
  return pod.content.deletionTimestamp === undefined ? 'healthy' : 'draining';
}

/** The pod of a cluster that has an address: pods of other clusters may have the same address on other networks. */
export function podAt(
  address: string,
  cluster: Cluster,
  indexes: WorkloadIndexes,
  reads: Reads,
): Resource<'Pod'> | undefined {
  const id = addressId(address) ?? address;
  reads.add(`${ADDRESS_READ}${id}`);
  for (const key of membersOf(indexes.podsByIp, id)) {
    const pod = indexes.resources('Pod').get(key);
    if (pod?.meta.cluster === cluster) return pod;
  }
  return undefined;
}

export function podNamed(
  namespace: string,
  name: string,
  cluster: Cluster,
  indexes: WorkloadIndexes,
  reads: Reads,
): Resource<'Pod'> | undefined {
  const key = resourceKey('Pod', namespace, name, cluster);
  reads.add(key);
  return indexes.resources('Pod').get(key);
}

/** The network of a workload at one of its addresses. */
export function networkOfWorkload(workload: WorkloadResource, address: string, networkOf: NetworkFinder): string {
  if (isPod(workload)) return podNetwork(workload, address, networkOf);
  const { meta, content } = workload;
  return entryNetwork(content, entryLabels(content, meta.labels), networkOf);
}

function isPod(workload: WorkloadResource): workload is Resource<'Pod'> {
  return workload.kind === 'Pod';
}

/** @param labels of the entry, and those of its metadata */
function entryNetwork({ network = '', address = '' }: WorkloadEntrySpec, labels: Labels, find: NetworkFinder): string {
  return network === '' ? (labels[NETWORK_LABEL] ?? find(endpointAddress(address), undefined)) : network;
}

/** The network of a pod at one of its addresses. */
export function podNetwork({ meta }: Resource<'Pod'>, address: string, networkOf: NetworkFinder): string {
  return meta.labels[NETWORK_LABEL] ?? networkOf(address, meta.cluster);
}

export function podWorkload(
  pod: Resource<'Pod'>,
  address: string,
  health: Health,
  hostname: string | undefined,
  indexes: WorkloadIndexes,
  reads: Reads,
): Workload {
  const { meta, content } = pod;
  return {
    address,
    labels: meta.labels,
    locality: labelLocality(meta.labels) ?? localityOfNode(content.spec.nodeName, meta.cluster, indexes, reads),
    network: podNetwork(pod, address, indexes.networkOf),
    ...(meta.cluster !== undefined && { cluster: meta.cluster }),
    weight: undefined,
    serviceAccount: content.spec.serviceAccountName ?? 'default',
    health,
    workload: { namespace: meta.namespace, name: meta.name },
    hostname: hostname ?? (content.spec.subdomain === undefined ? '' : (content.spec.hostname ?? '')),
    tlsReady: isTlsReady(meta.labels),
  };
}

export function bareWorkload(
  address: string,
  health: Health,
  hostname: string | undefined,
  locality: string,
  cluster: Cluster,
  indexes: WorkloadIndexes,
): Workload {
  return {
    address,
    labels: NO_LABELS,
    locality,
    network: indexes.networkOf(address, cluster),
    ...(cluster !== undefined && { cluster }),
    weight: undefined,
    serviceAccount: '',
    health,
    workload: undefined,
    hostname: hostname ?? '',
    tlsReady: false,
  };
}

/** Unix domain sockets are written `unix:///path` or `unix:@name`; everything else is an address or a host name. */
export function endpointAddress(written: string): string {
  if (written.startsWith('unix://')) return written.slice('unix://'.length);
  return written.startsWith('unix:') ? written.slice('unix:'.length) : written;
}

export function isSocketPath(address: string): boolean {
  return address.startsWith('/') || address.startsWith('@');
}

/** A workload entry, or an endpoint written in a service entry; undefined when it has no address. */
export function entryWorkload(
  spec: WorkloadEntrySpec,
  metaLabels: Labels,
  workload: Workload['workload'],
  indexes: WorkloadIndexes,
  health: Health = 'healthy',
): Workload | undefined {
  if (spec.address === undefined || spec.address === '') return undefined;
  const address = endpointAddress(spec.address);
  const labels = entryLabels(spec, metaLabels);
  const locality = spec.locality === undefined || spec.locality === '' ? undefined : fullLocality(spec.locality);
  return {
    address,
    labels,
    locality: locality ?? labelLocality(labels) ?? '',
    network: entryNetwork(spec, labels, indexes.networkOf),
    weight: spec.weight,
    serviceAccount: spec.serviceAccount ?? '',
    health,
    workload,
    hostname: '',
    tlsReady: isEntryTlsReady(labels, spec.serviceAccount),
  };
}

/** Labels of a workload entry: those of its spec, then those of its metadata. */
export function entryLabels(spec: WorkloadEntrySpec, metaLabels: Labels): Labels {
  return Object.keys(metaLabels).length === 0 ? (spec.labels ?? NO_LABELS) : { ...metaLabels, ...spec.labels };
}
