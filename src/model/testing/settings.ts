/** Settings of a mesh in tests: the defaults of ctl-discovery. */
import type { ModelSettings } from '../types/types.ts';

export const DEFAULT_SETTINGS: ModelSettings = {
  domain: 'cluster.local',
  clusterId: 'Orchestrator',
  servesOtherClusters: false,
  trustDomain: 'cluster.local',
  rootNamespace: 'mesh-system',
  useEndpointSlice: false,
  serviceEntrySelectsPods: true,
  serviceSelectsWorkloadEntries: true,
  sniffOutbound: true,
  sniffInbound: true,
  inboundDetectionTimeoutMs: 1000,
  initialFetchTimeoutMs: 0,
  traceSampling: 100,
  http10: false,
  defaultRequestTimeoutMs: 0,
  edsForHeadless: false,
  headlessPodListeners: true,
  scopeGatewayToNamespace: false,
  filterGatewayClusters: false,
  sidecarUseRemoteAddress: false,
  skipTrustDomainCheck: false,
  plugins: ['authn', 'authz', 'health', 'policy'],
};
