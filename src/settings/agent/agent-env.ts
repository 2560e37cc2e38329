/**
 * The environment variables of `ctl-agent proxy`, grouped by identity of the proxy, bootstrap, life cycle and
 * endpoints. The names of the last group are not those of Istio's agent.
 */
import type { EnvTable } from '../env-table.ts';
import { agentCredentialsEnv } from './agent-credentials-env.ts';
import { agentDnsEnv } from './agent-dns-env.ts';
import { agentIdentityEnv } from './agent-identity-env.ts';

export const agentEnv = {
  // Identity of the proxy. INSTANCE_IP and TRUST_DOMAIN are used when --ip and --trust-domain are not given.
  INSTANCE_IP: { setting: 'ip', type: 'string', default: '', meaning: 'Used as fallback for the --ip flag.' },
  POD_NAME: {
    setting: 'podName',
    type: 'string',
    default: '',
    meaning:
      'Name of the workload. If unset: for a workload that registers itself, a name derived from its WorkloadEntry; ' +
      'otherwise the host name.',
  },
  POD_NAMESPACE: {
    setting: 'podNamespace',
    type: 'string',
    default: '',
    meaning: 'Namespace of the workload; else `default`.',
  },
  CLUSTER_ID: {
    setting: 'clusterId',
    type: 'string',
    default: 'Orchestrator',
    meaning: 'Cluster and service registry this instance belongs to.',
  },
  MESH_META_CLUSTER_ID: {
    setting: 'metaClusterId',
    type: 'string',
    default: '',
    meaning: 'Cluster in the metadata of the node; takes precedence over CLUSTER_ID.',
  },
  TRUST_DOMAIN: {
    setting: 'trustDomain',
    type: 'string',
    default: '',
    meaning: 'Trust domain of SPIFFE certificates.',
  },

  ...agentIdentityEnv,
  ...agentCredentialsEnv,
  ...agentDnsEnv,
  ENABLE_INGRESS_GATEWAY_SDS: {
    setting: 'gatewaySecrets',
    type: 'boolean',
    default: false,
    meaning:
      'The agent of a gateway reads the TLS Secrets that `credentialName` names and serves them to Envoy. Its ' +
      'service account needs the permission to get, list and watch Secrets.',
  },
  INGRESS_GATEWAY_NAMESPACE: {
    setting: 'gatewaySecretsNamespace',
    type: 'string',
    default: '',
    meaning: 'Namespace of the Secrets of ENABLE_INGRESS_GATEWAY_SDS; when empty that of the workload.',
  },

  // The bootstrap. MESH_BOOTSTRAP is used when --templateFile is not given.
  PROXY_CONFIG: {
    setting: 'proxyConfig',
    type: 'string',
    default: '',
    meaning: 'Proxy configuration; set by injection, gateways use file mounts.',
  },
  MESH_BOOTSTRAP: {
    setting: 'templateFile',
    type: 'string',
    default: '',
    meaning: 'Bootstrap config template file, used as fallback for the --templateFile flag.',
  },
  MESH_BOOTSTRAP_OVERRIDE: {
    setting: 'bootstrapOverride',
    type: 'string',
    default: '',
    meaning: 'File with a partial bootstrap, YAML or JSON, that is merged into the bootstrap.',
  },
  MESH_NAMESPACE: {
    setting: 'meshNamespace',
    type: 'string',
    default: '',
    meaning: 'Namespace of the control plane; else `mesh-system`.',
  },
  MESHD_CUSTOM_HOST: {
    setting: 'customHost',
    type: 'string',
    default: '',
    meaning: 'Custom host name of the control plane, which its server certificate must contain.',
  },
  XDS_UPSTREAM: {
    setting: 'xdsUpstream',
    type: 'string',
    default: '',
    meaning: 'Address of the upstream XDS server; when unset the discovery address is used.',
  },
  XDS_LOCAL: {
    setting: 'xdsLocal',
    type: 'string',
    default: '',
    meaning: 'Address of a local XDS proxy; when empty the proxy is disabled.',
  },
  XDS_SAVE: {
    setting: 'xdsSave',
    type: 'string',
    default: '',
    meaning: 'When set, the XDS proxy saves a snapshot of the received config.',
  },
  XDS_HOST_TIMEOUT: {
    setting: 'xdsHostTimeoutMs',
    type: 'duration',
    default: '2s',
    min: 0,
    meaning:
      'How long requests to a host that Envoy asks for wait for a control plane that cannot be reached: then they ' +
      'get HTTP 503, until it answers. One that is connected has five times as long, until it has left a first host ' +
      'without an answer. Needs XDS_LOCAL. 0s: as long as their client waits.',
  },
  GRPC_XDS_BOOTSTRAP: {
    setting: 'grpcBootstrap',
    type: 'string',
    default: '',
    meaning: 'File for the bootstrap of gRPC applications that are xDS clients themselves; needs XDS_LOCAL.',
  },
  MESH_GPRC_MAXRECVMSGSIZE: {
    setting: 'maxReceiveBytes',
    type: 'integer',
    default: 4194304,
    min: 1,
    unit: 'bytes',
    meaning: 'Maximum receive buffer size of a gRPC stream, bytes.',
  },
  CTL_INITIAL_FETCH_TIMEOUT: {
    setting: 'initialFetchTimeoutMs',
    type: 'duration',
    default: '0s',
    min: 0,
    meaning: 'Initial fetch timeout for config; when reached without a response the proxy continues its init phase.',
  },

  // Life cycle, probes and metrics.
  TERMINATION_DRAIN_DURATION_SECONDS: {
    setting: 'terminationDrainDurationSeconds',
    type: 'integer',
    default: 5,
    min: 0,
    unit: 'seconds',
    meaning: 'Seconds allowed for connections to complete on agent shutdown.',
  },
  EXIT_ON_ZERO_ACTIVE_CONNECTIONS: {
    setting: 'exitOnZeroActiveConnections',
    type: 'boolean',
    default: false,
    meaning:
      'Drains until there are no connections, instead of TERMINATION_DRAIN_DURATION_SECONDS; the sender of the ' +
      'signal sets the limit.',
  },
  MINIMUM_DRAIN_DURATION: {
    setting: 'minimumDrainMs',
    type: 'duration',
    default: '5s',
    min: 0,
    meaning: 'Shortest time to drain with EXIT_ON_ZERO_ACTIVE_CONNECTIONS, in which new connections are accepted.',
  },
  MESH_ORCH_APP_PROBERS: {
    setting: 'appProbers',
    type: 'string',
    default: '',
    meaning: 'Health probes of the application that the agent performs for Kubernetes: a JSON object by path.',
  },
  MESH_METRICS_ANNOTATIONS: {
    setting: 'metricsAnnotations',
    type: 'string',
    default: '',
    meaning: "Location of the application's metrics: a JSON object with scrape, port and path.",
  },

  // Not in Istio's agent.
  DISABLE_ENVOY: {
    setting: 'disableEnvoy',
    type: 'boolean',
    default: false,
    meaning: 'Does not run Envoy; for gRPC applications that are xDS clients themselves.',
  },
  ENVOY_PATH: {
    setting: 'envoyPath',
    type: 'string',
    default: '',
    meaning: 'The Envoy binary; takes precedence over binaryPath of the proxy configuration.',
  },
  ENVOY_STATUS_PORT: {
    setting: 'readinessPort',
    type: 'integer',
    default: 15021,
    min: 1,
    meaning: 'Port of the readiness endpoint.',
  },
  ENVOY_PROMETHEUS_PORT: {
    setting: 'prometheusPort',
    type: 'integer',
    default: 15090,
    min: 1,
    meaning: "Port of Envoy's own metrics.",
  },
  MESH_DELTA_XDS: {
    setting: 'deltaXds',
    type: 'boolean',
    default: true,
    meaning: 'Envoy uses Delta xDS; false: State of the World.',
  },
  SERVICE_ACCOUNT: {
    setting: 'serviceAccount',
    type: 'string',
    default: '',
    meaning: 'Service account of the workload.',
  },
} as const satisfies EnvTable;
