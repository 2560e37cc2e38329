/**
 * The labels of a proxy: those that its Pod in the registry has now. A proxy reads its labels when it starts, so what
 * its node states may be outdated. A proxy could state the labels of its Pod itself, so they give it nothing that the
 * labels of its node could not.
 */
import { type ProxyNode, podNameOf } from '../../core/proxy.ts';
import type { Snapshot } from '../../model/index.ts';
import { ProxyMesh } from './proxy-mesh.ts';

type Labels = ProxyNode['labels'];

/**
 * The proxy with its current labels; the same object if they are equal. Without a Pod in the registry that is the
 * proxy's, it keeps the labels that it has: those of its deleted Pod, or those of its node.
 */
export function withCurrentLabels(snapshot: Snapshot, node: ProxyNode): ProxyNode {
  const found = labelsOfPod(new ProxyMesh(snapshot), node);
  if (found === undefined) return node;
  const labels = node.staticLabels === undefined ? found : { ...node.staticLabels, ...found };
  if (node.labelsOfPod && areEqual(labels, node.labels)) return node;
  return { ...node, labels, labelsOfPod: true };
}

function labelsOfPod(mesh: ProxyMesh, node: ProxyNode): Labels | undefined {
  const { identity, namespace, clusterId, addresses } = node;
  // Namespaces of other trust domains are different namespaces, even if their names are equal.
  const isForeign = identity !== undefined && identity.trustDomain !== mesh.settings.trustDomain;
  if (isForeign || (identity !== undefined && identity.namespace !== namespace)) return undefined;
  const account = identity?.serviceAccount;
  return mesh.podOf({ namespace, name: podNameOf(node), clusterId, addresses, account })?.meta.labels;
}

function areEqual(a: Labels, b: Labels): boolean {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && a[key] === b[key]);
}
