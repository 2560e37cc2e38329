/** From the program's settings to what generation reads of them. */
import type { DiscoverySettings } from '../cli/index.ts';
import type { ModelSettings } from '../model/types.ts';
import type { MeshConfig } from '../resources/mesh-config.ts';

/** Namespace of mesh-wide resources. */
export function rootNamespaceOf(settings: DiscoverySettings, mesh: MeshConfig): string {
  return mesh.rootNamespace === '' ? settings.namespace : mesh.rootNamespace;
}

/** Flags win over the mesh configuration where both can say it; the mesh configuration always has a value. */
export function modelSettings(settings: DiscoverySettings, mesh: MeshConfig): ModelSettings {
  return {
    domain: settings.domain,
    clusterId: settings.clusterID,
    trustDomain: settings.trustDomain === '' ? mesh.trustDomain : settings.trustDomain,
    rootNamespace: rootNamespaceOf(settings, mesh),
    useEndpointSlice: settings.useEndpointSlice,
    serviceEntrySelectsPods: settings.serviceEntrySelectsPods,
    serviceSelectsWorkloadEntries: settings.serviceSelectsWorkloadEntries,
    sniffOutbound: settings.sniffOutbound,
    sniffInbound: settings.sniffInbound,
    inboundDetectionTimeoutMs: settings.inboundDetectionTimeoutMs,
    initialFetchTimeoutMs: settings.initialFetchTimeoutMs,
    http10: settings.http10,
    defaultRequestTimeoutMs: settings.defaultRequestTimeoutMs,
    edsForHeadless: settings.edsForHeadless,
    headlessPodListeners: settings.headlessPodListeners,
    scopeGatewayToNamespace: settings.scopeGatewayToNamespace,
    filterGatewayClusters: settings.filterGatewayClusters,
    sidecarUseRemoteAddress: settings.sidecarUseRemoteAddress,
    skipTrustDomainCheck: settings.skipTrustDomainCheck,
    plugins: settings.plugins,
  };
}
