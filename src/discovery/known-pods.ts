/** The Pods of the newest snapshot, for the authorization of proxies. */
import { addressId, podAddresses, type Snapshot } from '../model/index.ts';
import { resourceKey } from '../resources/index.ts';
import type { KnownPod, PodFinder } from '../xds/index.ts';

/** @param clusterID of the program's own cluster */
export function knownPods(engine: { readonly snapshot: Snapshot }, clusterID: string): PodFinder {
  return (namespace, name, clusterId = clusterID): KnownPod | undefined => {
    const cluster = clusterId === '' || clusterId === clusterID ? undefined : clusterId;
    const pod = engine.snapshot.resources('Pod').get(resourceKey('Pod', namespace, name, cluster));
    if (pod === undefined) return undefined;
    const ids = podAddresses(pod).map((address) => addressId(address) ?? address);
    return {
      serviceAccount: pod.content.spec.serviceAccountName || undefined,
      uid: pod.origin.uid,
      has: (address) => (ids.length === 0 ? undefined : ids.includes(addressId(address) ?? address)),
    };
  };
}
