/**
 * The environment variables of ctl-discovery. Grouped by topic: instance, push, gRPC, service model, generation.
 * Settings of the model have the same names there.
 */
import type { EnvTable } from '../env-table.ts';
import { discoveryCaEnv } from './discovery-ca-env.ts';
import { discoveryGatewayEnv } from './discovery-gateway-env.ts';
import { discoveryIdentityEnv } from './discovery-identity-env.ts';
import { discoveryOtelEnv } from './discovery-otel-env.ts';
import { discoveryPushEnv } from './discovery-push-env.ts';
import { discoveryRegistryEnv } from './discovery-registry-env.ts';
import { discoveryStatusEnv } from './discovery-status-env.ts';

export const discoveryEnv = {
  // This instance. CLUSTER_ID and POD_NAMESPACE are used when --clusterID and --namespace are not given.
  CLUSTER_ID: {
    setting: 'clusterID',
    type: 'string',
    default: 'Orchestrator',
    meaning: 'Cluster and service registry this instance belongs to.',
  },
  POD_NAMESPACE: {
    setting: 'namespace',
    type: 'string',
    default: 'mesh-system',
    meaning: 'Namespace of the program.',
  },
  REVISION: {
    setting: 'revision',
    type: 'string',
    default: '',
    meaning:
      'Revision of the control plane; the ConfigMap meshd-REVISION then has the mesh configuration, and the replicas ' +
      'of this revision elect their own leaders.',
  },
  ORCH_INGRESS_NS: {
    setting: 'orchIngressNamespace',
    type: 'string',
    default: '',
    meaning:
      'Namespace of the gateways that serve Ingresses, and of their service; when empty that of ' +
      'INGRESS_GATEWAY_NAMESPACE, else that of the program.',
  },
  INGRESS_GATEWAY_NAMESPACE: {
    setting: 'ingressGatewayNamespace',
    type: 'string',
    default: '',
    meaning: 'Namespace of the gateways that serve Ingresses when ORCH_INGRESS_NS is empty.',
  },
  CTL_WORKLOAD_ENTRY_GRACE_PERIOD: {
    setting: 'workloadEntryGraceMs',
    type: 'duration',
    default: '10s',
    min: 0,
    meaning:
      'How long the WorkloadEntry of a registered workload stays after the end of its last connection; a workload ' +
      'that connects again in this time, to any replica, keeps it. After a restart without a cluster, the time is ' +
      '30s longer.',
  },
  CTL_DOCUMENT_LIMIT_FACTOR: {
    setting: 'documentLimitFactor',
    type: 'float',
    default: 1,
    min: 0.01,
    meaning:
      'Factor by which the limits for one document (patches, listeners, subsets, routes and others) are multiplied.',
  },
  CTL_ENABLED_SERVICE_APIS: {
    setting: 'serviceApis',
    type: 'boolean',
    default: false,
    meaning: 'Enables support of the Gateway API (formerly service APIs).',
  },
  CTL_ENABLE_INCREMENTAL_MCP: {
    setting: 'incrementalMcp',
    type: 'boolean',
    default: false,
    meaning: 'Whether MCP sources are asked for changes only, after their first response.',
  },

  ...discoveryPushEnv,

  // gRPC and life cycle.
  MESH_GPRC_MAXRECVMSGSIZE: {
    setting: 'grpcMaxRecvMsgSize',
    type: 'integer',
    default: 4194304,
    min: 1,
    unit: 'bytes',
    meaning: 'Maximum receive buffer size of a gRPC stream, bytes.',
  },
  MESH_GPRC_MAXSTREAMS: {
    setting: 'grpcMaxStreams',
    type: 'integer',
    default: 100000,
    min: 1,
    unit: 'streams',
    meaning: 'Maximum number of concurrent gRPC streams.',
  },
  TERMINATION_DRAIN_DURATION_SECONDS: {
    setting: 'terminationDrainDurationSeconds',
    type: 'integer',
    default: 5,
    min: 0,
    unit: 'seconds',
    meaning: 'Seconds allowed for connections to complete on shutdown.',
  },

  // The policy component.
  MESH_LANG: {
    setting: 'meshLang',
    type: 'string',
    default: '',
    meaning: 'Attribute expression language runtime of the policy component.',
  },
  BYPASS_OOP_MTLS_SAN_VERIFICATION: {
    setting: 'bypassOopMtlsSanVerification',
    type: 'boolean',
    default: false,
    meaning: 'Skip SAN validation for out-of-process adapter authentication when true.',
  },

  // The service model.
  CTL_ENABLE_SERVICEENTRY_SELECT_PODS: {
    setting: 'serviceEntrySelectsPods',
    type: 'boolean',
    default: true,
    meaning: 'Service entries with selectors select pods from the cluster.',
  },
  CTL_ENABLE_ORCH_SELECT_WORKLOAD_ENTRIES: {
    setting: 'serviceSelectsWorkloadEntries',
    type: 'boolean',
    default: true,
    meaning: 'Services with selectors select workload entries with matching labels.',
  },
  CTL_USE_ENDPOINT_SLICE: {
    setting: 'useEndpointSlice',
    type: 'boolean',
    default: false,
    meaning:
      'Use endpoint slices instead of endpoints as endpoint source; the two are mutually exclusive; requires the ' +
      'endpoint-slice controller of Kubernetes.',
  },
  CTL_SCOPE_GATEWAY_TO_NAMESPACE: {
    setting: 'scopeGatewayToNamespace',
    type: 'boolean',
    default: false,
    meaning: 'A gateway workload selects only gateway resources of its own namespace.',
  },
  CTL_FILTER_GATEWAY_CLUSTER_CONFIG: {
    setting: 'filterGatewayClusters',
    type: 'boolean',
    default: false,
    meaning:
      'Limits the clusters of a gateway to the services that virtual services of its Gateway resources route to, or ' +
      'that it passes connections through to; otherwise it gets those of all services visible in its namespace.',
  },
  CTL_ENABLE_VIRTUAL_SERVICE_DELEGATE: {
    setting: 'virtualServiceDelegates',
    type: 'boolean',
    default: false,
    meaning:
      'Merges virtual services with those without hosts to which their routes delegate. When false, virtual services ' +
      'with a delegate are ignored.',
  },

  CTL_ENABLE_CRD_VALIDATION: {
    setting: 'crdValidation',
    type: 'boolean',
    default: false,
    meaning:
      'For deployments without a separate validator (the validation webhook): refused documents of the cluster are ' +
      'also reported as Events of their objects. Documents are validated in any case.',
  },

  // Generation.
  CTL_ENABLE_PROTOCOL_SNIFFING_FOR_INBOUND: {
    setting: 'sniffInbound',
    type: 'boolean',
    default: true,
    meaning: 'Protocol sniffing on inbound listeners whose port protocol is unspecified or unsupported.',
  },
  CTL_ENABLE_PROTOCOL_SNIFFING_FOR_OUTBOUND: {
    setting: 'sniffOutbound',
    type: 'boolean',
    default: true,
    meaning: 'Protocol sniffing on outbound listeners whose port protocol is unspecified or unsupported.',
  },
  CTL_ENABLE_RELDB_FILTER: {
    setting: 'mysqlFilter',
    type: 'boolean',
    default: false,
    meaning: "Envoy's MySQL filter on ports with protocol MySQL, for proxies that have it.",
  },
  CTL_ENABLE_KVSTORE_FILTER: {
    setting: 'redisFilter',
    type: 'boolean',
    default: false,
    meaning: "Envoy's Redis filter on ports with protocol Redis: it chooses a server by the key of each command.",
  },
  CTL_ENABLE_THRIFT_FILTER: {
    setting: 'thriftFilter',
    type: 'boolean',
    default: false,
    meaning: "Envoy's Thrift filter on ports with protocol Thrift: it chooses a server for each call.",
  },
  CTL_ENABLE_TCP_METADATA_EXCHANGE: {
    setting: 'tcpMetadataExchange',
    type: 'boolean',
    default: true,
    meaning:
      "Filters of Istio's builds of Envoy, for proxies that list them: peers exchange metadata on TCP connections, " +
      'and requests announce their protocol (ALPN).',
  },
  CTL_INBOUND_PROTOCOL_DETECTION_TIMEOUT: {
    setting: 'inboundDetectionTimeoutMs',
    type: 'duration',
    default: '1s',
    min: 0,
    meaning: 'Protocol detection timeout for inbound listeners.',
  },
  CTL_SKIP_VALIDATE_TRUST_DOMAIN: {
    setting: 'skipTrustDomainCheck',
    type: 'boolean',
    default: false,
    meaning: 'Skips checking that the peer is in the same trust domain when mutual TLS is enabled.',
  },
  CTL_INITIAL_FETCH_TIMEOUT: {
    setting: 'initialFetchTimeoutMs',
    type: 'duration',
    default: '0s',
    min: 0,
    meaning: 'Initial fetch timeout for config; when reached without a response the proxy continues its init phase.',
  },
  CTL_TRACE_SAMPLING: {
    setting: 'traceSampling',
    type: 'float',
    default: 100,
    min: 0,
    max: 100,
    meaning:
      'Mesh-wide trace sampling percentage, range 0.0 to 100.0, precision 0.01; 100 is not recommended for production.',
  },
  CTL_HTTP10: {
    setting: 'http10',
    type: 'boolean',
    default: false,
    meaning: 'Allows HTTP 1.0 in outbound HTTP listeners.',
  },
  MESH_DEFAULT_REQUEST_TIMEOUT: {
    setting: 'defaultRequestTimeoutMs',
    type: 'duration',
    default: '0s',
    min: 0,
    meaning: 'Default HTTP and gRPC request timeout.',
  },
  CTL_ENABLE_EDS_FOR_HEADLESS_SERVICES: {
    setting: 'edsForHeadless',
    type: 'boolean',
    default: false,
    meaning: 'For headless services send endpoints over EDS so the sidecar load balances among pods.',
  },
  CTL_ENABLE_HEADLESS_SERVICE_POD_LISTENERS: {
    setting: 'headlessPodListeners',
    type: 'boolean',
    default: true,
    meaning:
      'For a headless service or stateful set generate one outbound listener per pod; disable when pods are numerous.',
  },
  CTL_SIDECAR_USE_REMOTE_ADDRESS: {
    setting: 'sidecarUseRemoteAddress',
    type: 'boolean',
    default: false,
    meaning: 'Sets useRemoteAddress on sidecar outbound listeners.',
  },

  // The certificate authority.
  ...discoveryIdentityEnv,
  ...discoveryRegistryEnv,
  ...discoveryCaEnv,
  DNS_AGENT: {
    setting: 'dnsAgent',
    type: 'string',
    default: '',
    meaning:
      'When set, the names of the mesh are served to agents by DNS over TLS on DNS_ADDR. `false` counts as unset.',
  },
  DNS_ADDR: {
    setting: 'dnsAddress',
    type: 'string',
    default: ':15053',
    meaning: 'DNS listen address; when it is given, DNS_AGENT is not needed.',
  },
  DNS_SERVER: {
    setting: 'dnsServer',
    type: 'string',
    default: '',
    meaning: 'Protocol and DNS server to use for names outside the mesh; only `tcp-tls:` is supported.',
  },
  ...discoveryOtelEnv,
  ...discoveryStatusEnv,
  ...discoveryGatewayEnv,
  INJECTION_WEBHOOK_CONFIG_NAME: {
    setting: 'injectionWebhookConfigName',
    type: 'string',
    default: 'mesh-sidecar-injector',
    meaning:
      'Name of the mutating webhook configuration to patch when the command-line installer is not used. ' +
      'If the revision is not default, -REVISION is appended to the default name.',
  },
  VALIDATION_WEBHOOK_CONFIG_NAME: {
    setting: 'validationWebhookConfigName',
    type: 'string',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the namespace replaces it at start
    default: 'meshd-${namespace}',
    meaning:
      'Name of the validating webhook configuration to patch when the command-line installer is not used. ' +
      'If the revision is not default, -REVISION is appended to the default name. ' +
      // biome-ignore lint/suspicious/noTemplateCurlyInString: placeholders
      '${namespace} and ${revision} are replaced.',
  },
} as const satisfies EnvTable;
