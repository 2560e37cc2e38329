/**
 * The Pod of a proxy in the registry. A proxy states the name of its Pod and its addresses itself; its credential
 * proves a namespace and a service account. Name, addresses and account have to agree with the Pod.
 */
import { type Resource, type ResourceChange, type ResourceKey, resourceKey } from '../../resources/index.ts';
import { deepEqual } from '../common/equal.ts';
import { addressId } from '../common/networks.ts';
import { ofKind } from '../common/tables.ts';
import type { ModelSettings } from '../types/settings.ts';
import { podAddresses } from './workloads.ts';

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

/** The Pods that exist after the change, of which something changed that {@link isPodOfProxy} or labels depend on. */
export function changedPods(changed: readonly ResourceChange[]): ReadonlySet<ResourceKey> {
  const found = new Set<ResourceKey>();
  for (const { key, before, after } of changed) {
    const is = ofKind(after, 'Pod');
    if (is !== undefined && !isSame(ofKind(before, 'Pod'), is)) found.add(key);
  }
  return found;
}

function isSame(was: Resource<'Pod'> | undefined, is: Resource<'Pod'>): boolean {
  return (
    was !== undefined &&
    was.content.spec.serviceAccountName === is.content.spec.serviceAccountName &&
    deepEqual(was.meta.labels, is.meta.labels) &&
    deepEqual(podAddresses(was), podAddresses(is))
  );
}
