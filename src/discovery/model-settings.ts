/** From the program's settings to what generation reads of them. */

import type { ModelSettings } from '../model/index.ts';
import type { MeshConfig } from '../resources/index.ts';
import type { DiscoverySettings } from '../settings/index.ts';

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

/**
 * What the mesh configuration can say and only a start can take: the certificate authority, its roots and every index
 * rest on it.
 */
const FIXED = ['rootNamespace', 'trustDomain'] as const;

/**
 * Tells of changes of the mesh configuration that need a restart, each once. What stays in force is what `first` says,
 * or the settings in its place.
 */
export function restartWatch(
  settings: DiscoverySettings,
  first: MeshConfig,
  warn: (message: string) => void,
): (next: MeshConfig) => void {
  const inForce = modelSettings(settings, first);
  let last = inForce;
  return (next) => {
    const wanted = modelSettings(settings, next);
    for (const field of FIXED) {
      if (wanted[field] === last[field]) continue;
      const [now, then] = [JSON.stringify(inForce[field]), JSON.stringify(wanted[field])];
      warn(
        wanted[field] === inForce[field]
          ? `${field} of the mesh configuration is ${now} again, as is in force`
          : `${field} of the mesh configuration is ${then} now, which needs a restart; until then ${now} stays in force`,
      );
    }
    last = wanted;
  };
}
