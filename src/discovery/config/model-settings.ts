/** The settings of the model, from the flags, variables and mesh configuration. */

import { CtlError } from '../../core/errors.ts';
import { SIDECAR_CONFIGURATIONS, type SidecarConfiguration } from '../../core/proxy.ts';
import type { ModelSettings } from '../../model/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';

/** Namespace of mesh-wide resources. */
export function rootNamespaceOf(settings: DiscoverySettings, mesh: MeshConfig): string {
  return mesh.rootNamespace === '' ? settings.namespace : mesh.rootNamespace;
}

/** A flag overrides the mesh configuration where both have a setting. */
export function modelSettings(settings: DiscoverySettings, mesh: MeshConfig): ModelSettings {
  return {
    domain: settings.domain,
    clusterId: settings.clusterID,
    servesOtherClusters: settings.centralMeshd,
    trustDomain: settings.trustDomain === '' ? mesh.trustDomain : settings.trustDomain,
    rootNamespace: rootNamespaceOf(settings, mesh),
    useEndpointSlice: settings.useEndpointSlice,
    serviceEntrySelectsPods: settings.serviceEntrySelectsPods,
    serviceSelectsWorkloadEntries: settings.serviceSelectsWorkloadEntries,
    sniffOutbound: settings.sniffOutbound,
    sniffInbound: settings.sniffInbound,
    mysqlFilter: settings.mysqlFilter,
    redisFilter: settings.redisFilter,
    thriftFilter: settings.thriftFilter,
    tcpMetadataExchange: settings.tcpMetadataExchange,
    inboundDetectionTimeoutMs: settings.inboundDetectionTimeoutMs,
    initialFetchTimeoutMs: settings.initialFetchTimeoutMs,
    traceSampling: settings.traceSampling,
    sidecarConfiguration: sidecarConfiguration(settings),
    http10: settings.http10,
    defaultRequestTimeoutMs: settings.defaultRequestTimeoutMs,
    edsForHeadless: settings.edsForHeadless,
    headlessPodListeners: settings.headlessPodListeners,
    scopeGatewayToNamespace: settings.scopeGatewayToNamespace,
    filterGatewayClusters: settings.filterGatewayClusters,
    virtualServiceDelegates: settings.virtualServiceDelegates,
    sidecarUseRemoteAddress: settings.sidecarUseRemoteAddress,
    skipTrustDomainCheck: settings.skipTrustDomainCheck,
    plugins: settings.plugins,
  };
}

/** Throws a CtlError for another value than those that there are. */
function sidecarConfiguration({ sidecarConfiguration: value }: DiscoverySettings): SidecarConfiguration {
  const found = SIDECAR_CONFIGURATIONS.find((each) => each === value);
  if (found !== undefined) return found;
  const message = `${JSON.stringify(value)} is not one of ${SIDECAR_CONFIGURATIONS.join(', ')}`;
  throw new CtlError('invalid_argument', message, { field: 'CTL_SIDECAR_CONFIGURATION' });
}

/**
 * Fields of the mesh configuration that take effect only at start, because the certificate authority, its roots and
 * every index depend on them.
 */
const FIXED = ['rootNamespace', 'trustDomain'] as const;

/**
 * Warns once about each change of the mesh configuration that needs a restart. Until then the values of `first`, or the
 * flags that override them, stay in force.
 */
export function restartWatch(
  settings: DiscoverySettings,
  first: MeshConfig,
  warn: (message: string) => void,
): (next: MeshConfig) => void {
  const inForce = modelSettings(settings, first);
  let last = inForce;
  let ingress = ingressRestart(settings, first, first);
  const sourcesInForce = JSON.stringify(first.configSources);
  let sources = sourcesInForce;
  return (next) => {
    const wanted = modelSettings(settings, next);
    const message = ingressRestart(settings, first, next);
    if (message !== undefined && message !== ingress) warn(message);
    ingress = message;
    const wantedSources = JSON.stringify(next.configSources);
    if (wantedSources !== sources) warn(sourcesRestart(next, wantedSources === sourcesInForce));
    sources = wantedSources;
    for (const field of FIXED) {
      if (wanted[field] === last[field]) continue;
      const [now, then] = [JSON.stringify(inForce[field]), JSON.stringify(wanted[field])];
      warn(
        wanted[field] === inForce[field]
          ? `${field} of the mesh configuration is ${now} again, which is in force`
          : `${field} of the mesh configuration is now ${then}, which needs a restart; ` +
              `until then ${now} stays in force`,
      );
    }
    last = wanted;
  };
}

/** Sources are opened at startup: their documents are in force together, and in the order of the sources. */
function sourcesRestart({ configSources }: MeshConfig, areInForce: boolean): string {
  const listed = configSources.map(({ address }) => address).join(', ') || 'empty';
  return areInForce
    ? `configSources of the mesh configuration are those in force again: ${listed}`
    : `configSources of the mesh configuration changed (now ${listed}), which needs a restart; until then those of ` +
        'the start are read';
}

/** Describes a change of the served Ingresses that needs a restart; undefined for none. */
function ingressRestart({ configDir }: DiscoverySettings, first: MeshConfig, next: MeshConfig): string | undefined {
  // The kinds to read from an API server are chosen at startup, and the Secrets to read when an Ingress changes.
  if (configDir !== '' || next.ingressControllerMode === 'OFF') return undefined;
  if (first.ingressControllerMode === 'OFF') {
    const mode = JSON.stringify(next.ingressControllerMode);
    const change = `ingressControllerMode of the mesh configuration is now ${mode}`;
    return `${change}, which needs a restart; until then no Ingress is read`;
  }
  if (next.ingressClass === first.ingressClass) return undefined;
  const change = `ingressClass of the mesh configuration is now ${JSON.stringify(next.ingressClass)}`;
  return `${change}; Secrets of its Ingresses may be read only after a restart`;
}
