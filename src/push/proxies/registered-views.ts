/**
 * Determines the views of a proxy that the registry confirms: those that the workload at its address needs. A proxy
 * states almost everything about itself, so the number of views could be unlimited; the number of views that workloads
 * of the registry need is limited by the size of the mesh.
 */
import type { ProxyNode } from '../../core/proxy.ts';
import { DEFAULT_PLACEMENT, isClientView, unrecorded, type View } from '../../generate/index.ts';
import type { RegisteredWorkload, Snapshot } from '../../model/index.ts';
import { placementKey, placementOf, viewKey, viewsOf } from './proxy-views.ts';

/** Key of a view in a placement, from the keys of both. */
export function placedViewKey(view: string, placement: string): string {
  return `${view} ${placement}`;
}

/**
 * The views of a proxy that its workload needs (`placedViewKey`), each with a key that is the same for all proxies of
 * such workloads, whatever their programs can do.
 */
export function registeredViews(snapshot: Snapshot, node: ProxyNode): ReadonlyMap<string, string> {
  return unrecorded(() => {
    const workload = workloadOf(snapshot, node);
    if (workload === undefined) return new Map();
    const known = asRegistered(snapshot, node, workload);
    const placement = placementKey(placementOf(snapshot, known));
    const plain = viewsOf(snapshot, withoutFeatures(snapshot, known));
    const placementFor = (view: View) => (isClientView(view) ? placement : placementKey(DEFAULT_PLACEMENT));
    return new Map(
      viewsOf(snapshot, known).map((view, index) => [
        placedViewKey(viewKey(view), placementFor(view)),
        placedViewKey(viewKey(plain[index] ?? view), placementFor(view)),
      ]),
    );
  });
}

function workloadOf(snapshot: Snapshot, node: ProxyNode): RegisteredWorkload | undefined {
  for (const address of node.addresses) {
    const workload = workloadAt(snapshot, node, address);
    if (workload !== undefined) return workload;
  }
  return undefined;
}

function workloadAt(snapshot: Snapshot, node: ProxyNode, address: string): RegisteredWorkload | undefined {
  return snapshot.workloadAt(snapshot.networkOfProxy(node, address), address, node.namespace);
}

/** The proxy with the data of its workload in the registry, and without the addresses of other workloads. */
function asRegistered(snapshot: Snapshot, node: ProxyNode, workload: RegisteredWorkload): ProxyNode {
  const { labels, locality, network } = workload;
  const addresses = node.addresses.filter((address) => {
    const other = workloadAt(snapshot, node, address);
    return other === undefined || isSame(other, workload);
  });
  return { ...node, addresses, labels, locality, network };
}

function isSame(one: RegisteredWorkload, other: RegisteredWorkload): boolean {
  if (one.workload === undefined || other.workload === undefined) return one.address === other.address;
  return one.workload.namespace === other.workload.namespace && one.workload.name === other.workload.name;
}

/** The same for a proxy whose programs have no features. */
function withoutFeatures(snapshot: Snapshot, node: ProxyNode): ProxyNode {
  const { agentReadsSecrets, istioAgent, policyCluster, dns, mergesNames, tracing, options, ...rest } = node;
  return {
    ...rest,
    addresses: node.addresses.filter((address) => workloadAt(snapshot, node, address) !== undefined),
    interception: 'REDIRECT',
    extensions: [],
    sds: false,
    version: '',
    meshVersion: '',
    metadata: '',
    clusterId: '',
    dnsDomain: '',
    discoversVirtualHosts: false,
    shortEndpointNames: false,
  };
}
