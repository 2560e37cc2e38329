/** The Pods of the newest snapshot, for the authorization of proxies. */
import { addressId, podAddresses, type Snapshot } from '../../model/index.ts';
import { resourceKey } from '../../resources/index.ts';
import type { KnownPod, PodFinder } from '../../xds/index.ts';

/**
 * A caller states its cluster itself. Without CENTRAL_MESHD only proxies of the own cluster are served, so that naming
 * another one must not hide a Pod of the own cluster from its authorization.
 *
 * @param clusterID of the program's own cluster
 */
export function knownPods(engine: { readonly snapshot: Snapshot }, clusterID: string): PodFinder {
  return (namespace, name, clusterId = clusterID): KnownPod | undefined => {
    const { snapshot } = engine;
    const isOwn = !snapshot.settings.servesOtherClusters || clusterId === '' || clusterId === clusterID;
    const cluster = isOwn ? undefined : clusterId;
    const pod = snapshot.resources('Pod').get(resourceKey('Pod', namespace, name, cluster));
    if (pod === undefined) return undefined;
    const ids = podAddresses(pod).map((address) => addressId(address) ?? address);
    return {
      serviceAccount: pod.content.spec.serviceAccountName || undefined,
      uid: pod.origin.uid,
      has: (address) => (ids.length === 0 ? undefined : ids.includes(addressId(address) ?? address)),
    };
  };
}
