/** The flags of ctl-discovery. */
import { introspectionFlags, keepaliveFlags, loggingFlags, versionFlags } from '../common-flags.ts';
import { usageError } from '../errors.ts';
import type { FlagTable } from '../flag-table.ts';
import { parseListenAddress } from '../listen-address.ts';
import { registryServers } from '../registry-servers.ts';

const checkAddress = (text: string) => void parseListenAddress(text);

/** Flags of every command of ctl-discovery. */
export const discoveryCommonFlags = {
  ...introspectionFlags,
  ...keepaliveFlags,
  ...loggingFlags('ctl-discovery'),
} as const satisfies FlagTable;

export const discoveryVersionFlags = { ...versionFlags, ...discoveryCommonFlags } as const satisfies FlagTable;

/** The addresses of the discovery service that a command calls: the values of the same flags there. */
const calledAddresses = {
  httpAddr: {
    type: 'string',
    default: ':8080',
    meaning: 'The --httpAddr of the discovery service that is called.',
    check: checkAddress,
  },
  monitoringAddr: {
    type: 'string',
    default: ':15014',
    meaning: 'The --monitoringAddr of the discovery service that is called.',
    check: checkAddress,
  },
} as const satisfies FlagTable;

/** Flags of `ctl-discovery request`. */
export const discoveryRequestFlags = { ...calledAddresses, ...discoveryCommonFlags } as const satisfies FlagTable;

/** Flags of `ctl-discovery issue-token`. */
export const discoveryIssueTokenFlags = {
  audience: {
    type: 'string',
    default: 'mesh-ca',
    meaning: 'Audience of the token, one that the discovery service accepts (its variable AUDIENCE).',
  },
  'issuer-dir': {
    type: 'string',
    default: '',
    meaning: 'Directory of the issuer: its private key, which stays there, and its public key (jwks.json).',
  },
  namespace: { type: 'string', short: 'n', default: '', meaning: 'Namespace of the workload.' },
  'service-account': { type: 'string', default: '', meaning: 'Service account of the workload.' },
  ttl: { type: 'duration', default: '1h0m0s', min: 1000, meaning: 'Lifetime of the token.' },
  ...discoveryCommonFlags,
} as const satisfies FlagTable;

/** Flags of `ctl-discovery issue-workload`. */
export const discoveryIssueWorkloadFlags = {
  address: { type: 'string', default: '', meaning: 'IP address of the machine; its first address when unset.' },
  audience: discoveryIssueTokenFlags.audience,
  'discovery-address': {
    type: 'string',
    default: '',
    meaning: 'Address of the control plane for the machine: host:port.',
  },
  'discovery-ip': {
    type: 'string',
    default: '',
    meaning: 'IP address of the control plane, for the hosts file of a machine whose DNS does not have its name.',
  },
  dns: {
    type: 'bool',
    default: false,
    meaning: 'The agent answers the DNS queries of the machine (DNS_AGENT), so that it can call services by name.',
  },
  file: { type: 'string', short: 'f', default: '', meaning: 'File with the WorkloadGroup, instead of --kubeconfig.' },
  group: { type: 'string', default: '', meaning: 'Name of the WorkloadGroup.' },
  'issuer-dir': discoveryIssueTokenFlags['issuer-dir'],
  kubeconfig: {
    type: 'string',
    default: '',
    meaning: 'Kubeconfig of the cluster that has the WorkloadGroup and the root certificates, and issues the token.',
  },
  namespace: { type: 'string', short: 'n', default: '', meaning: 'Namespace of the WorkloadGroup.' },
  output: { type: 'string', short: 'o', default: '', meaning: 'Directory for the files, which is created.' },
  'root-cert': { type: 'string', default: '', meaning: 'File with the root certificates of the mesh, PEM.' },
  'trust-domain': {
    type: 'string',
    default: '',
    meaning: 'Trust domain of the mesh; when set, the machine checks it.',
  },
  ttl: discoveryIssueTokenFlags.ttl,
  ...discoveryCommonFlags,
} as const satisfies FlagTable;

/** Flags of `ctl-discovery inject`. */
export const discoveryInjectFlags = {
  file: {
    type: 'stringArray',
    short: 'f',
    default: [],
    meaning: 'File with Kubernetes manifests, YAML or JSON; - is the standard input. May be repeated.',
  },
  injectConfigFile: {
    type: 'string',
    default: '',
    meaning: 'File with policy, selectors and templates; the built-in ones when unset.',
  },
  meshConfigFile: {
    type: 'string',
    default: '',
    meaning: 'Mesh configuration file; the default mesh when unset.',
  },
  namespace: { type: 'string', short: 'n', default: 'default', meaning: 'Namespace of documents that have none.' },
  output: { type: 'string', short: 'o', default: '', meaning: 'File for the result; the standard output when unset.' },
  revision: {
    type: 'string',
    default: '',
    meaning: 'Revision of the control plane that the proxies use; the REVISION variable when unset.',
  },
  valuesFile: { type: 'string', default: '', meaning: 'File with the values of templates; the defaults when unset.' },
  ...discoveryCommonFlags,
} as const satisfies FlagTable;

const WINDOW = 'bytes; less than 65535 has no effect';
/** RFC 9113 section 6.9.1. */
const MAX_WINDOW = 2 ** 31 - 1;

function checkWindow(bytes: number): void {
  if (bytes > MAX_WINDOW) throw usageError(`expected at most ${MAX_WINDOW} bytes`);
}

/** Flags of `ctl-discovery discovery`. */
export const discoveryFlags = {
  appNamespace: {
    type: 'string',
    short: 'a',
    default: '',
    meaning: 'Comma-separated application namespaces managed; when empty all namespaces are watched.',
  },
  caCertFile: { type: 'string', default: '', meaning: 'File with the x509 server CA certificate.' },
  clusterID: { type: 'string', default: 'Orchestrator', meaning: 'ID of the cluster this instance resides in.' },
  clusterRegistriesNamespace: {
    type: 'string',
    default: 'mesh-system',
    meaning:
      'Namespace of the Secrets with access to other clusters: those with the label mesh.io/multiCluster=true or ' +
      'istio/multiCluster=true. Each key is the ID of a cluster, and its value a kubeconfig. Empty: none is read.',
  },
  configDir: {
    type: 'string',
    default: '',
    meaning:
      'Directory watched for config yaml files; when set the files replace the resource client as config source.',
  },
  domain: { type: 'string', default: 'cluster.local', meaning: 'DNS domain suffix.' },
  extregistryServerURL: {
    type: 'string',
    default: '',
    meaning:
      'URL of the external registry server, for the registry ExtRegistry: http or https, of a server or agent of ' +
      'Consul. Several of one cluster are separated by commas.',
    check: (text) => void registryServers(text),
  },
  grpcAddr: {
    type: 'string',
    default: ':15010',
    whenNotGiven: 'localhost:15010',
    meaning:
      'Discovery gRPC address. It is plain text and gives every caller the configuration of any namespace, so ' +
      'without the flag its port is open on loopback addresses only.',
    check: checkAddress,
  },
  httpAddr: { type: 'string', default: ':8080', meaning: 'Discovery HTTP address.', check: checkAddress },
  httpsAddr: {
    type: 'string',
    default: ':15017',
    meaning:
      'HTTPS address of the injection and validation service, with the certificate of --secureGRPCAddr. Empty: it is ' +
      'not served.',
    check: (text) => {
      if (text !== '') checkAddress(text);
    },
  },
  kubeconfig: {
    type: 'string',
    default: '',
    meaning:
      'Kubernetes client configuration file used instead of in-cluster configuration. With --configDir, the mesh ' +
      'resources come from the files, and services and workloads from the cluster.',
  },
  mcpInitialConnWindowSize: {
    type: 'int',
    default: 1048576,
    min: 0,
    unit: 'bytes',
    meaning: `Initial connection window size of the MCP gRPC connection, ${WINDOW}.`,
    check: checkWindow,
  },
  mcpInitialWindowSize: {
    type: 'int',
    default: 1048576,
    min: 0,
    unit: 'bytes',
    meaning: `Initial window size of the MCP gRPC connection, ${WINDOW}.`,
    check: checkWindow,
  },
  mcpMaxMsgSize: {
    type: 'int',
    default: 4194304,
    min: 1,
    unit: 'bytes',
    meaning: 'Maximum message size received by the MCP gRPC client, bytes; also of configuration over xDS.',
  },
  meshConfig: {
    type: 'string',
    default: './etc/mesh/config/mesh',
    meaning: 'Mesh configuration file; a default mesh is used if absent.',
  },
  monitoringAddr: {
    type: 'string',
    default: ':15014',
    meaning: 'HTTP address for self-monitoring information.',
    check: checkAddress,
  },
  namespace: {
    type: 'string',
    short: 'n',
    default: 'mesh-system',
    meaning: 'Namespace where the controller resides; when unset the POD_NAMESPACE variable.',
  },
  networksConfig: {
    type: 'string',
    default: '/etc/mesh/config/meshNetworks',
    meaning: 'Mesh networks configuration file; a default is used if absent.',
  },
  plugins: {
    type: 'stringSlice',
    default: ['authn', 'authz', 'health', 'policy'],
    values: ['authn', 'authz', 'health', 'policy'],
    meaning:
      'Networking plugins enabled. Filters of a plugin that is not named are left out: authn has the filters for ' +
      'tokens of end users, authz those for AuthorizationPolicy, policy those that ask external authorizers (action ' +
      'CUSTOM); health has none, since the agent answers probes.',
  },
  profile: {
    type: 'bool',
    default: false,
    meaning:
      'Enables profiling through the web interface at `host:port/debug/pprof`, for callers who may see all debug ' +
      'pages: requests from this machine to localhost, and callers with a token of the root namespace. A heap ' +
      'snapshot contains every private key of the program.',
  },
  registries: {
    type: 'stringSlice',
    default: ['Orchestrator'],
    values: ['Orchestrator', 'ExtRegistry', 'Mock'],
    meaning: 'Service registries read, one or more of Orchestrator, ExtRegistry, Mock.',
    check: checkRegistries,
  },
  resync: {
    type: 'duration',
    default: '1m0s',
    min: 0,
    meaning:
      'Controller resync interval: how often files are checked even without file events, and API discovery is ' +
      'read where custom resource definitions may not be watched. 0s: never.',
  },
  secureGRPCAddr: {
    type: 'string',
    default: ':15012',
    meaning: 'Secured discovery gRPC address.',
    check: checkAddress,
  },
  tlsCertFile: { type: 'string', default: '', meaning: 'File with the x509 server certificate.' },
  tlsKeyFile: { type: 'string', default: '', meaning: 'File with the private key matching --tlsCertFile.' },
  'trust-domain': { type: 'string', default: '', meaning: 'Domain identifying the system with SPIFFE.' },
  ...discoveryCommonFlags,
} as const satisfies FlagTable;

function checkRegistries(names: readonly string[]): void {
  if (names.length === 0) throw usageError('name one or more of Orchestrator, ExtRegistry, Mock');
  if (new Set(names).size < names.length) throw usageError('a registry may be named only once');
}
