/**
 * Checks a proxy's node against its credential: a node may only state the namespace and the service account of its
 * caller, and if the credential is bound to a Pod, only the name, the addresses and the cluster of that Pod.
 */
import { CtlError } from '../../core/errors.ts';
import { type ProxyNode, podNameOf } from '../../core/proxy.ts';
import type { Caller } from '../../security/index.ts';

function denied(field: string, value: string, allowed: string): CtlError {
  const shown = JSON.stringify(value.slice(0, 253));
  const message = `is ${shown}, but the credential of the stream is for ${JSON.stringify(allowed)}`;
  return new CtlError('permission_denied', message, { field });
}

/** Namespaces in a node's ID, if it has the usual form `<pod>.<namespace>~<namespace>.svc.<domain>`. */
function namespacesOfId({ workload, dnsDomain }: ProxyNode): string[] {
  const dot = workload.lastIndexOf('.');
  const inWorkload = dot < 0 ? [] : [workload.slice(dot + 1)];
  const [inDomain = '', next] = dnsDomain.split('.');
  return next === 'svc' ? [...inWorkload, inDomain] : inWorkload;
}

/** The data of a Pod in the registry. */
export interface KnownPod {
  /** Undefined when its document names no ServiceAccount, as in a directory. */
  readonly serviceAccount: string | undefined;
  /** Undefined if its source does not report it. */
  readonly uid: string | undefined;
  /** Whether an address is one of the Pod's; undefined while the Pod has none. */
  has(address: string): boolean | undefined;
}

/**
 * Finds a Pod in the registry; undefined for a Pod that is not known, or not yet.
 * @param clusterId CLUSTER_ID of a node; undefined for the program's own cluster
 */
export type PodFinder = (namespace: string, name: string, clusterId?: string) => KnownPod | undefined;

/**
 * The addresses of the node that belong to the Pod; all of them while the Pod's addresses are not known. An agent
 * reports every address of its machine, including addresses that are not in the Pod's status, which are left out. The
 * address in the ID must be that of the Pod.
 */
function addressesOfPod(node: ProxyNode, pod: KnownPod): readonly string[] {
  const isForeign = (address: string): boolean => pod.has(address) === false;
  const [, inId = ''] = node.id.split('~');
  const addresses = node.addresses.filter((address) => !isForeign(address));
  if (inId !== '' && isForeign(inId)) throw notOfPod('node.id', inId);
  if (node.addresses.length > 0 && addresses.length === 0) {
    throw notOfPod('node.metadata.INSTANCE_IPS', node.addresses.join(','));
  }
  return addresses;
}

function notOfPod(field: string, addresses: string): CtlError {
  const message = `${JSON.stringify(addresses)} is not an address of the Pod of the credential`;
  return new CtlError('permission_denied', message, { field });
}

/**
 * The Pod of the node in the registry. Undefined if it is not known: a proxy may start before the registry has read its
 * Pod. A Pod with the same name may be a different one: an earlier Pod, a Pod of another cluster, or the Pod whose name
 * a machine uses. They are distinguished by the UID in the credential or, without a Pod in it, by the node's addresses.
 */
function podOfNode(node: ProxyNode, bound: Caller['pod'], podOf: PodFinder): KnownPod | undefined {
  const { namespace, clusterId, addresses } = node;
  const pod = podOf(namespace, podNameOf(node), bound === undefined ? clusterId : bound.cluster);
  if (bound === undefined) return addresses.some((address) => pod?.has(address) === true) ? pod : undefined;
  return pod?.uid === undefined || pod.uid === bound.uid ? pod : undefined;
}

/**
 * The node with the caller's identity and service account, and the addresses that its Pod has. Throws CtlError
 * permission_denied when the node names another namespace, service account, Pod or address than the credential. A
 * namespace of another trust domain counts as the one of the same name here.
 * The cluster, which decides about the proxy's network, is that of the credential's Pod, whatever the node states.
 * Without a Pod in the credential it is the one that the node states.
 * @param ownCluster ID of the program's own cluster
 */
export function authorizedNode(
  node: ProxyNode,
  { identity, pod: bound }: Caller,
  podOf: PodFinder = () => undefined,
  ownCluster = '',
): ProxyNode {
  const { namespace, serviceAccount } = identity;
  if (node.namespace !== namespace) throw denied('node.metadata.NAMESPACE', node.namespace, namespace);
  const other = namespacesOfId(node).find((one) => one !== namespace);
  if (other !== undefined) throw denied('node.id', other, namespace);
  if (node.serviceAccount !== '' && node.serviceAccount !== serviceAccount) {
    throw denied('node.metadata.SERVICE_ACCOUNT', node.serviceAccount, serviceAccount);
  }
  const name = podNameOf(node);
  if (bound !== undefined && bound.name !== name) throw denied('node.id', name, bound.name);
  const pod = podOfNode(node, bound, podOf);
  if (pod?.serviceAccount !== undefined && pod.serviceAccount !== serviceAccount) {
    throw denied('node.id', `${name} (service account ${pod.serviceAccount})`, serviceAccount);
  }
  const addresses = bound === undefined || pod === undefined ? node.addresses : addressesOfPod(node, pod);
  const clusterId = bound === undefined ? node.clusterId : (bound.cluster ?? ownCluster);
  return { ...node, addresses, clusterId, serviceAccount, identity };
}
