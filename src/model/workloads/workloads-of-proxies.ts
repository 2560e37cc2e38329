/**
 * The workload of a proxy in the registry: its Pod, or the WorkloadEntry as which its machine is registered. A proxy
 * states its name, addresses and group itself; its credential proves a namespace and a service account. All of them
 * have to agree with the workload.
 */
import { isDnsSubdomain } from '../../core/dns-names.ts';
import {
  type AnyResource,
  GROUP_ANNOTATION,
  type Resource,
  type ResourceChange,
  type ResourceKey,
  resourceKey,
} from '../../resources/index.ts';
import { deepEqual } from '../common/equal.ts';
import type { Labels } from '../common/labels.ts';
import { addressId } from '../common/networks.ts';
import { ofKind } from '../common/tables.ts';
import type { ModelSettings } from '../types/settings.ts';
import { entryLabels, podAddresses } from './workloads.ts';

/** What a proxy states of its Pod. */
export interface ProxyOfPod {
  readonly namespace: string;
  /** The name of its Pod. */
  readonly name: string;
  readonly clusterId: string;
  readonly addresses: readonly string[];
  /** The service account that its credential proves; undefined without a credential. */
  readonly account: string | undefined;
}

/** What the proxy of a machine states of its registration. */
export interface ProxyOfEntry {
  readonly namespace: string;
  readonly group: string;
  readonly address: string;
  /** The network that its node states; '' without one. */
  readonly network: string;
  /** The service account that its credential proves. */
  readonly account: string;
}

/**
 * The key of a proxy's Pod. A caller states its cluster itself. If only proxies of the local cluster are served, naming
 * another one must not hide a Pod of the local cluster.
 */
export function podOfProxyKey(
  { servesOtherClusters, clusterId: own }: Pick<ModelSettings, 'servesOtherClusters' | 'clusterId'>,
  { namespace, name, clusterId }: Pick<ProxyOfPod, 'namespace' | 'name' | 'clusterId'>,
): ResourceKey {
  const isOwn = !servesOtherClusters || clusterId === '' || clusterId === own;
  return resourceKey('Pod', namespace, name, isOwn ? undefined : clusterId);
}

/**
 * Whether a Pod with the name of the proxy's is its Pod, and not an earlier or later one, or the Pod whose name a
 * machine uses. Pods of a directory may have no account.
 */
export function isPodOfProxy(pod: Resource<'Pod'>, { addresses, account }: ProxyOfPod): boolean {
  const { serviceAccountName } = pod.content.spec;
  if (account !== undefined && serviceAccountName && serviceAccountName !== account) return false;
  const own = new Set(podAddresses(pod).map(canonical));
  return addresses.some((address) => own.has(canonical(address)));
}

function canonical(address: string): string {
  return addressId(address) ?? address;
}

/** The key of the WorkloadGroup that a machine names. */
export function groupOfProxyKey({ namespace, group }: Pick<ProxyOfEntry, 'namespace' | 'group'>): ResourceKey {
  return resourceKey('WorkloadGroup', namespace, group);
}

/**
 * The key of a machine's WorkloadEntry; undefined if its group, address and network cannot form a name.
 * @param found the group that it names; undefined: it does not exist
 */
export function entryOfProxyKey(
  { namespace, group, address, network }: ProxyOfEntry,
  found: Resource<'WorkloadGroup'> | undefined,
): ResourceKey | undefined {
  const name = registeredEntryName(group, address, found === undefined ? network : registeredNetwork(found, network));
  return name && resourceKey('WorkloadEntry', namespace, name);
}

/** The network in which a machine is registered: that of its group, otherwise the one that its node states. */
export function registeredNetwork({ content }: Resource<'WorkloadGroup'>, stated: string): string {
  return content.template.network || stated;
}

/** `<group>-<ip>[-<network>]`, as Istio names them; undefined where that is not a name. */
export function registeredEntryName(group: string, address: string, network: string): string | undefined {
  const parts = [group, address.replaceAll(':', '-'), ...(network === '' ? [] : [network])];
  // Addresses such as `fd00::` end with colons, and names must not end with hyphens.
  const name = parts.join('-').replace(/-+$/, '');
  return isDnsSubdomain(name) ? name : undefined;
}

/** Whether a WorkloadEntry with the name of the proxy's was registered for it. */
export function isEntryOfProxy(entry: Resource<'WorkloadEntry'>, { group, address, account }: ProxyOfEntry): boolean {
  const { meta, content } = entry;
  if (meta.annotations[GROUP_ANNOTATION] !== group || content.serviceAccount !== account) return false;
  return canonical(content.address ?? '') === canonical(address);
}

/** The labels of a registered workload. */
export function labelsOfEntry({ meta, content }: Resource<'WorkloadEntry'>): Labels {
  return entryLabels(content, meta.labels);
}

/**
 * The workloads and WorkloadGroups of which something changed that the labels of a proxy depend on. Deleted ones are
 * among them: the proxy of a deleted Pod may be that of a registered machine.
 */
export function changedWorkloads(changed: readonly ResourceChange[]): ReadonlySet<ResourceKey> {
  const found = new Set<ResourceKey>();
  for (const { key, before, after } of changed) {
    if (!deepEqual(readOf(before), readOf(after))) found.add(key);
  }
  return found;
}

/** What the labels of a proxy depend on. */
function readOf(resource: AnyResource | undefined): readonly unknown[] | undefined {
  const pod = ofKind(resource, 'Pod');
  if (pod !== undefined) return [pod.content.spec.serviceAccountName, podAddresses(pod), pod.meta.labels];
  const group = ofKind(resource, 'WorkloadGroup');
  if (group !== undefined) return [registeredNetwork(group, '')];
  const entry = ofKind(resource, 'WorkloadEntry');
  if (entry?.meta.annotations[GROUP_ANNOTATION] === undefined) return undefined;
  const { address, serviceAccount, labels } = entry.content;
  return [serviceAccount, address, labels, entry.meta.labels, entry.meta.annotations[GROUP_ANNOTATION]];
}
