/** The program settings that generation reads. */
import type { SidecarConfiguration } from '../../core/proxy.ts';

/** Settings of the program that generation reads. They come from flags and variables and never change while it runs. */
export interface ModelSettings {
  /** --domain */
  readonly domain: string;
  /** --clusterID / CLUSTER_ID */
  readonly clusterId: string;
  /** CENTRAL_MESHD: proxies of other clusters are served as well. */
  readonly servesOtherClusters: boolean;
  /** --trust-domain, else the mesh configuration's. */
  readonly trustDomain: string;
  /** Namespace of mesh-wide resources: the mesh configuration's rootNamespace, else --namespace. */
  readonly rootNamespace: string;
  /** CTL_USE_ENDPOINT_SLICE: endpoints come from EndpointSlices alone, else from Endpoints alone. */
  readonly useEndpointSlice: boolean;
  /** CTL_ENABLE_SERVICEENTRY_SELECT_PODS */
  readonly serviceEntrySelectsPods: boolean;
  /** CTL_ENABLE_ORCH_SELECT_WORKLOAD_ENTRIES */
  readonly serviceSelectsWorkloadEntries: boolean;
  /** CTL_ENABLE_PROTOCOL_SNIFFING_FOR_OUTBOUND */
  readonly sniffOutbound: boolean;
  /** CTL_ENABLE_PROTOCOL_SNIFFING_FOR_INBOUND */
  readonly sniffInbound: boolean;
  /** CTL_ENABLE_RELDB_FILTER */
  readonly mysqlFilter: boolean;
  /** CTL_ENABLE_KVSTORE_FILTER */
  readonly redisFilter: boolean;
  /** CTL_ENABLE_THRIFT_FILTER */
  readonly thriftFilter: boolean;
  /** CTL_ENABLE_TCP_METADATA_EXCHANGE */
  readonly tcpMetadataExchange: boolean;
  /** CTL_INBOUND_PROTOCOL_DETECTION_TIMEOUT, milliseconds. */
  readonly inboundDetectionTimeoutMs: number;
  /** CTL_INITIAL_FETCH_TIMEOUT, milliseconds; 0: no timeout. */
  readonly initialFetchTimeoutMs: number;
  /** CTL_TRACE_SAMPLING: percent of requests. */
  readonly traceSampling: number;
  /** CTL_SIDECAR_CONFIGURATION */
  readonly sidecarConfiguration: SidecarConfiguration;
  /** CTL_HTTP10 */
  readonly http10: boolean;
  /** MESH_DEFAULT_REQUEST_TIMEOUT, milliseconds; 0 is none. */
  readonly defaultRequestTimeoutMs: number;
  /** CTL_ENABLE_EDS_FOR_HEADLESS_SERVICES */
  readonly edsForHeadless: boolean;
  /** CTL_ENABLE_HEADLESS_SERVICE_POD_LISTENERS */
  readonly headlessPodListeners: boolean;
  /** CTL_SCOPE_GATEWAY_TO_NAMESPACE */
  readonly scopeGatewayToNamespace: boolean;
  /** CTL_FILTER_GATEWAY_CLUSTER_CONFIG */
  readonly filterGatewayClusters: boolean;
  /** CTL_ENABLE_VIRTUAL_SERVICE_DELEGATE */
  readonly virtualServiceDelegates: boolean;
  /** CTL_SIDECAR_USE_REMOTE_ADDRESS */
  readonly sidecarUseRemoteAddress: boolean;
  /** CTL_SKIP_VALIDATE_TRUST_DOMAIN: servers accept clients of every trust domain that the root certificates verify. */
  readonly skipTrustDomainCheck: boolean;
  /** --plugins */
  readonly plugins: readonly string[];
}
