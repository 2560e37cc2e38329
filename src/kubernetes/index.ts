/**
 * Entry point of the Kubernetes client: access to an API server, requests, and collections that are followed. Knows no
 * kinds of the mesh.
 */
export type { ClusterAccess } from './access.ts';
export { ApiError, ConnectionError, isLost } from './api-error.ts';
export { KubernetesClient, type PatchType, type WrittenObject } from './client.ts';
export { Connection, type ConnectionObserver, type ConnectionOptions } from './connection.ts';
export { Controller } from './controller/controller.ts';
export { isRefusal, reportFailure } from './failures.ts';
export { inClusterAccess } from './in-cluster.ts';
export { Informer, type InformerChange } from './informer/informer.ts';
export { type Following, followCollection } from './informer/shared-watch.ts';
export { type KubeconfigOptions, type KubeconfigText, readKubeconfig } from './kubeconfig.ts';
export { LeaderElection, type LeaderElectionOptions } from './leader-election/leader-election.ts';
export { createLeaseAccess, LEASES, type LeaseAccess, microTime } from './leader-election/lease.ts';
export {
  apiVersionOf,
  CONFIG_MAPS,
  type KubernetesObject,
  type ObjectMeta,
  pathOf,
  type ResourceType,
  SECRETS,
  v1Type,
} from './objects.ts';
