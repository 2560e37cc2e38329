/**
 * The labels of a proxy: those that its workload in the registry has now. A proxy reads its labels when it starts, so
 * what its node states may be outdated. A proxy could state the labels of its workload itself, so they give it nothing
 * that the labels of its node could not.
 */
import type { Identity } from '../../core/identity.ts';
import { type ProxyNode, podNameOf } from '../../core/proxy.ts';
import { labelsOfEntry, type Snapshot } from '../../model/index.ts';
import { ProxyMesh } from './proxy-mesh.ts';

type Labels = ProxyNode['labels'];
type Found = Required<Pick<ProxyNode, 'labels' | 'labelsOf'>>;

/**
 * The proxy with its current labels; the same object if they are equal. Without a workload in the registry that is the
 * proxy's, it keeps the labels that it has: those of its deleted workload, or those of its node.
 */
export function withCurrentLabels(snapshot: Snapshot, node: ProxyNode): ProxyNode {
  const mesh = new ProxyMesh(snapshot);
  // Namespaces of other trust domains are different namespaces, even if their names are equal.
  if (node.identity !== undefined && !isOfMesh(mesh, node.identity, node.namespace)) return node;
  const statedLabels = node.statedLabels ?? node.labels;
  // Both are looked up, so that the reads do not depend on which of them exists.
  const [pod, entry] = [ofPod(mesh, node), ofEntry(mesh, node, statedLabels)];
  const found = pod ?? entry;
  if (found === undefined || (node.labelsOf === found.labelsOf && areEqual(found.labels, node.labels))) return node;
  return { ...node, ...found, statedLabels };
}

function isOfMesh({ trustDomains }: ProxyMesh, identity: Identity, namespace: string): boolean {
  return trustDomains.includes(identity.trustDomain) && identity.namespace === namespace;
}

/** The Pod's value of a label takes precedence over that of `STATIC_LABELS`. */
function ofPod(mesh: ProxyMesh, node: ProxyNode): Found | undefined {
  const { identity, namespace, clusterId, addresses, staticLabels } = node;
  const account = identity?.serviceAccount;
  const pod = mesh.podOf({ namespace, name: podNameOf(node), clusterId, addresses, account });
  return pod && { labels: joined(staticLabels, pod.meta.labels), labelsOf: 'Pod' };
}

/**
 * All labels that the node of a machine states are additional ones: they are not those of an object. The entry's value
 * of a label takes precedence.
 */
function ofEntry(mesh: ProxyMesh, node: ProxyNode, statedLabels: Labels): Found | undefined {
  const { identity, namespace, workloadGroup: group, addresses, network } = node;
  const [address] = addresses;
  if (identity === undefined || group === undefined || address === undefined) return undefined;
  const entry = mesh.entryOf({ namespace, group, address, network, account: identity.serviceAccount });
  return entry && { labels: joined(statedLabels, labelsOfEntry(entry)), labelsOf: 'WorkloadEntry' };
}

/** The labels of the workload and, of those that were added, the ones that it does not have. */
function joined(added: Labels | undefined, ofWorkload: Labels): Labels {
  return added === undefined ? ofWorkload : { ...added, ...ofWorkload };
}

function areEqual(a: Labels, b: Labels): boolean {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && a[key] === b[key]);
}
