/**
 * The labels of a proxy: those that its workload in the registry has now. A proxy reads its labels when it starts, so
 * what its node states may be outdated. A proxy could state the labels of its workload itself, so they give it nothing
 * that the labels of its node could not.
 */
import type { Identity } from '../../core/identity.ts';
import { type ProxyNode, podNameOf } from '../../core/proxy.ts';
import { labelsOfEntry, type Snapshot } from '../../model/index.ts';
import { ProxyMesh } from './proxy-mesh.ts';

type Labelled = Pick<ProxyNode, 'labels' | 'labelsOf' | 'staticLabels'>;
type Labels = ProxyNode['labels'];

/**
 * The proxy with its current labels; the same object if they are equal. Without a workload in the registry that is the
 * proxy's, it keeps the labels that it has: those of its deleted workload, or those of its node.
 */
export function withCurrentLabels(snapshot: Snapshot, node: ProxyNode): ProxyNode {
  const mesh = new ProxyMesh(snapshot);
  // Namespaces of other trust domains are different namespaces, even if their names are equal.
  if (node.identity !== undefined && !isOfMesh(mesh, node.identity, node.namespace)) return node;
  const found = ofPod(mesh, node) ?? ofEntry(mesh, node);
  if (found === undefined) return node;
  const { staticLabels } = { ...node, ...found };
  const labels = staticLabels === undefined ? found.labels : { ...staticLabels, ...found.labels };
  if (node.labelsOf === found.labelsOf && areEqual(labels, node.labels)) return node;
  return { ...node, ...found, labels };
}

function isOfMesh({ trustDomains }: ProxyMesh, identity: Identity, namespace: string): boolean {
  return trustDomains.includes(identity.trustDomain) && identity.namespace === namespace;
}

function ofPod(mesh: ProxyMesh, node: ProxyNode): Labelled | undefined {
  const { identity, namespace, clusterId, addresses } = node;
  const account = identity?.serviceAccount;
  const pod = mesh.podOf({ namespace, name: podNameOf(node), clusterId, addresses, account });
  return pod && { labels: pod.meta.labels, labelsOf: 'Pod' };
}

/** All labels that the node of a machine states are additional ones: they are not those of an object. */
function ofEntry(mesh: ProxyMesh, node: ProxyNode): Labelled | undefined {
  const { identity, namespace, workloadGroup: group, addresses, network } = node;
  const [address] = addresses;
  if (identity === undefined || group === undefined || address === undefined) return undefined;
  const entry = mesh.entryOf({ namespace, group, address, network, account: identity.serviceAccount });
  if (entry === undefined) return undefined;
  const labels = { labels: labelsOfEntry(entry), labelsOf: 'WorkloadEntry' } as const;
  return node.labelsOf === undefined ? { ...labels, staticLabels: node.labels } : labels;
}

function areEqual(a: Labels, b: Labels): boolean {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && a[key] === b[key]);
}
