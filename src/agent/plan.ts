/** Combines and checks settings, proxy configuration and the machine's properties before Envoy starts. */
import { isIP } from 'node:net';
import { join } from 'node:path';
import { buildInfo } from '../core/build-info.ts';
import { CtlError } from '../core/errors.ts';
import type { Identity } from '../core/identity.ts';
import { isObject } from '../core/objects.ts';
import {
  CONTROL_PLANE_ROOTS,
  DNS_LISTENER,
  VIRTUAL_INBOUND_LISTENER,
  VIRTUAL_OUTBOUND_LISTENER,
} from '../core/proxy.ts';
import type { JsonObject, JsonValue } from '../protobuf/index.ts';
import { type AgentSettings, type Environment, isEnabled } from '../settings/index.ts';
import { type BootstrapInput, bootstrap } from './bootstrap/bootstrap.ts';
import { type GrpcBootstrap, grpcBootstrap } from './bootstrap/grpc.ts';
import { overriddenBootstrap } from './bootstrap/merge.ts';
import { type NodeInput, nodeOf } from './bootstrap/node.ts';
import { statedProxyConfig } from './bootstrap/stated-config.ts';
import { fillTemplate } from './bootstrap/template.ts';
import { parseCloud } from './credentials/cloud.ts';
import { type CredentialsPlan, planCredentials } from './credentials/plan.ts';
import { type DnsPlan, dnsPlan } from './dns/plan.ts';
import type { DrainTime } from './ending/drain.ts';
import type { EnvoyOptions } from './envoy/command.ts';
import { type GatewaySecretsPlan, planGatewaySecrets } from './gateway-secrets-plan.ts';
import { type AppProbes, parseAppProbes } from './health/app-probes.ts';
import { parseWorkloadProbe, type WorkloadProbe } from './health/workload-probe.ts';
import { type AppMetrics, parseAppMetrics } from './metrics/app-metrics.ts';
import { planServices, serviceNames } from './services-plan.ts';
import {
  type ControlPlane,
  controlPlane,
  DEFAULT_NAMESPACE,
  defaultControlPlaneHost,
} from './settings/control-plane.ts';
import { policyIdentity } from './settings/policy-identity.ts';
import { type AgentProxyConfig, loadMeshConfig, readDataFile } from './settings/proxy-config.ts';
import { thisMachine, type WorkloadAddress, workloadAddress } from './settings/workload-address.ts';
import { dialedAddress, exposureOf } from './settings/xds-local.ts';
import type { ProxyRole } from './types.ts';
import { type ControlPlanes, planXds, type XdsPlan } from './xds-plan.ts';

export interface AgentPlan {
  readonly role: ProxyRole;
  /** False when applications are xDS clients themselves (DISABLE_ENVOY). */
  readonly runsEnvoy: boolean;
  readonly workload: WorkloadAddress;
  /** Folder of the files that the agent writes for Envoy. */
  readonly configFolder: string;
  /** Undefined without certificates: a control plane in plain text issues none. */
  readonly identity: IdentityPlan | undefined;
  readonly credentials: CredentialsPlan;
  /** The port of the security token service; 0 for none. */
  readonly stsPort: number;
  /** The address of the xDS server; the first one of several. */
  readonly controlPlane: ControlPlane;
  readonly xds: XdsPlan;
  /** Undefined when the agent has no DNS server. */
  readonly dns: DnsPlan | undefined;
  readonly bootstrap: JsonObject;
  /** The bootstrap for gRPC applications; undefined when none is written. */
  readonly grpcBootstrap: GrpcBootstrap | undefined;
  readonly envoy: Omit<EnvoyOptions, 'configPath'>;
  /** Additional environment variables for Envoy; the agent's own have precedence. */
  readonly envoyEnv: Readonly<Record<string, string>>;
  readonly adminPort: number;
  readonly ports: { readonly readiness: number; readonly status: number; readonly prometheus: number };
  readonly drainTime: DrainTime;
  readonly probes: AppProbes;
  /** Undefined when the health of the workload is not reported. */
  readonly workloadProbe: WorkloadProbe | undefined;
  readonly app: AppMetrics | undefined;
  /** Settings without effect, one line each. */
  readonly warnings: readonly string[];
  /** Names of required listeners: those for redirected connections. */
  readonly neededListeners: readonly string[];
  /** What those listeners need from the machine, for the log; '' if nothing in particular. */
  readonly listenerRequirement: string;
  /** The address at which the application is probed and scraped: loopback is not redirected. */
  readonly appHost: string;
}

/** Settings for fetching and serving the workload's certificates. */
export interface IdentityPlan {
  readonly identity: Identity;
  /** Whether --trust-domain, TRUST_DOMAIN or the mesh configuration names the trust domain. */
  readonly trustDomainSet: boolean;
  readonly caServer: ControlPlane;
  /** The URL of the workload's cluster, for an authority in a cloud. */
  readonly clusterUrl: string | undefined;
  /** Unix domain socket of the workload's secrets. */
  readonly sdsPath: string;
  /** The namespace whose Secrets are served as well; absent: none. */
  readonly gatewayNamespace?: string | undefined;
}

/** The CA_PROVIDER whose CA_ADDR is a Unix domain socket. */
const WORKLOAD_API = 'SPIFFE';
const DEFAULTS = {
  configPath: './etc/mesh/proxy',
  binaryPath: '/usr/local/bin/envoy',
  adminPort: 15_000,
  statusPort: 15_020,
  drainMs: 45_000,
  interceptionMode: 'REDIRECT',
  trustDomain: 'cluster.local',
  serviceAccount: 'default',
} as const;

/** Throws a CtlError of one line for anything that is unreadable or invalid. */
export async function planAgent(
  role: ProxyRole,
  settings: AgentSettings,
  env: Environment,
  labelFile: string,
): Promise<AgentPlan> {
  const { proxyConfig, trustDomain, warnings } = await loadMeshConfig(settings.meshConfig, settings.proxyConfig);
  const workload = workloadAddress(settings, thisMachine(), { ...proxyConfig.proxyMetadata, ...env });
  const configFolder = proxyConfig.configPath ?? DEFAULTS.configPath;
  const ports = portsOf(settings, proxyConfig);
  const interceptionMode = proxyConfig.interceptionMode ?? DEFAULTS.interceptionMode;
  const ipv6 = isIP(workload.ip) === 6;
  const loopback = ipv6 ? '::1' : '127.0.0.1';
  const { addresses, caServer } = controlPlaneAddresses(settings, proxyConfig);
  const identity = identityPlan(settings, trustDomain, workload, caServer, configFolder);
  checkCertified(addresses, identity);
  const domain = settings.trustDomain || trustDomain || DEFAULTS.trustDomain;
  const credentials = planCredentials(settings, domain, identity !== undefined && !settings.fileMountedCerts);
  const dns = await dnsPlan({ settings, env, workload, controlPlane: [...addresses, caServer] });
  const sds = identity !== undefined;
  const gateway = planGatewaySecrets(role, settings, workload.namespace, sds);
  const { services, warnings: serviceWarnings } = planServices(proxyConfig, sds);
  const facts = { ...workload, role, platform: credentials.cloud.platform, sds, interceptionMode, labelFile, env };
  const policy = policyIdentity(settings, domain, addresses, templateOf(settings, proxyConfig) !== '');
  const node = planNode(settings, proxyConfig, gateway, { ...facts, policyCluster: policy.inBootstrap });
  const xds = planXds(settings, addresses, node, { loopback, policyId: policy.required });
  const input: BootstrapInput = {
    ...bootstrapSettings(settings, proxyConfig),
    services,
    node,
    adminPort: ports.admin,
    prometheusPort: ports.prometheus,
    ipv6: workload.addresses.some((address) => isIP(address) === 6),
    controlPlane: addresses[0],
    xdsLocal: xds.local === undefined ? undefined : dialedAddress(xds.local, loopback),
    sdsPath: identity?.sdsPath,
    controlPlaneRoots: settings.caProvider === WORKLOAD_API ? CONTROL_PLANE_ROOTS : undefined,
    policy,
  };
  return {
    role,
    workload,
    configFolder,
    identity: identity && { ...identity, gatewayNamespace: gateway.namespace },
    credentials,
    stsPort: settings.stsPort,
    controlPlane: addresses[0],
    xds,
    dns,
    bootstrap: await wholeBootstrap(settings, proxyConfig, input),
    grpcBootstrap: grpcPlan(settings, input, sds),
    envoy: envoyPlan(settings, proxyConfig, ipv6),
    envoyEnv: { ...serviceNames(String(node.cluster), workload.namespace), ...proxyConfig.proxyMetadata },
    adminPort: ports.admin,
    ports,
    drainTime: drainTimeOf(settings, proxyConfig),
    ...applicationPlan(settings, proxyConfig, loopback, ports.status),
    warnings: [
      warnings,
      exposureOf(xds.local),
      credentials.warnings,
      gateway.warnings,
      [...withoutEffect(role, proxyConfig), ...policy.warnings],
      dns?.warnings ?? [],
      serviceWarnings,
    ].flat(),
    ...envoyNeeds(role, interceptionMode, settings),
  };
}

function checkCertified(addresses: ControlPlanes, identity: IdentityPlan | undefined): void {
  if (identity === undefined && addresses.some(({ tls }) => tls))
    throw new CtlError('invalid_argument', 'TLS to XDS_UPSTREAM needs certificates: set CA_ADDR');
}

function drainTimeOf(settings: AgentSettings, { terminationDrainDuration }: AgentProxyConfig): DrainTime {
  if (settings.exitOnZeroActiveConnections) return { until: 'no connections', minimumMs: settings.minimumDrainMs };
  return { until: 'time', ms: terminationDrainDuration ?? settings.terminationDrainDurationSeconds * 1000 };
}

function grpcPlan(
  { grpcBootstrap: path, outputCerts }: AgentSettings,
  { xdsLocal, node }: BootstrapInput,
  certified: boolean,
): GrpcBootstrap | undefined {
  return grpcBootstrap({ path, local: xdsLocal, node, certificates: certified ? outputCerts : '' });
}

/** `envoy.config.core.v3.Node`, JSON form. */
function planNode(
  settings: AgentSettings,
  proxyConfig: AgentProxyConfig,
  gateway: GatewaySecretsPlan,
  facts: Omit<
    NodeInput,
    'userSds' | 'cluster' | 'serviceAccount' | 'clusterId' | 'version' | 'stsPort' | 'dnsAgent' | 'proxyConfig'
  >,
): JsonObject {
  return nodeOf({
    ...facts,
    stsPort: settings.stsPort,
    userSds: gateway.namespace !== undefined,
    dnsAgent: isEnabled(settings.dnsAgent),
    cluster:
      settings.serviceCluster === 'mesh-proxy' ? (proxyConfig.serviceCluster ?? 'mesh-proxy') : settings.serviceCluster,
    serviceAccount: settings.serviceAccount,
    clusterId: settings.metaClusterId === '' ? settings.clusterId : settings.metaClusterId,
    version: buildInfo().version,
    env: { ...proxyConfig.proxyMetadata, ...facts.env },
    ...statedProxyConfig(facts.role, proxyConfig),
  });
}

/** Undefined without certificates. */
function identityPlan(
  settings: AgentSettings,
  meshTrustDomain: string | undefined,
  { namespace }: WorkloadAddress,
  caServer: ControlPlane,
  configFolder: string,
): IdentityPlan | undefined {
  const needsNoServer = settings.fileMountedCerts || settings.caProvider === WORKLOAD_API;
  if (!caServer.tls && settings.caAddress === '' && !needsNoServer) return undefined;
  return {
    identity: {
      trustDomain: settings.trustDomain || meshTrustDomain || DEFAULTS.trustDomain,
      namespace,
      serviceAccount: settings.serviceAccount || DEFAULTS.serviceAccount,
    },
    trustDomainSet: (settings.trustDomain || meshTrustDomain || '') !== '',
    caServer,
    clusterUrl: parseCloud(settings).clusterUrl,
    sdsPath: join(configFolder, 'SDS'),
  };
}

function withoutEffect(role: ProxyRole, { gatewayTopology }: AgentProxyConfig): string[] {
  return role === 'router' || gatewayTopology === undefined
    ? []
    : ['PROXY_CONFIG: gatewayTopology has no effect on a sidecar: it is for gateways'];
}

/** The parts of the bootstrap that come from settings alone. */
function bootstrapSettings(settings: AgentSettings, proxyConfig: AgentProxyConfig) {
  return {
    delta: settings.deltaXds,
    initialFetchTimeoutMs: settings.initialFetchTimeoutMs,
    outlierLogPath: settings.outlierLogPath,
    minimalStats: settings.disableInternalTelemetry,
    countsConnections: settings.exitOnZeroActiveConnections,
    extraStatTags: proxyConfig.extraStatTags ?? [],
    statsdUdpAddress: proxyConfig.statsdUdpAddress ?? '',
  };
}

/** The addresses at which the application is probed and scraped. */
function applicationPlan(
  settings: AgentSettings,
  proxyConfig: AgentProxyConfig,
  appHost: string,
  statusPort: number,
): Pick<AgentPlan, 'probes' | 'workloadProbe' | 'app' | 'appHost'> {
  return {
    probes: parseAppProbes(settings.appProbers, appHost),
    workloadProbe: parseWorkloadProbe(proxyConfig.readinessProbe, appHost),
    app: parseAppMetrics(settings.metricsAnnotations, statusPort),
    appHost,
  };
}

function envoyPlan(settings: AgentSettings, proxyConfig: AgentProxyConfig, ipv6: boolean): AgentPlan['envoy'] {
  return {
    binary: settings.envoyPath || proxyConfig.binaryPath || DEFAULTS.binaryPath,
    concurrency: settings.concurrency === 0 ? (proxyConfig.concurrency ?? 0) : settings.concurrency,
    logLevel: settings.proxyLogLevel,
    componentLogLevel: settings.proxyComponentLogLevel,
    drainMs: proxyConfig.drainDuration ?? DEFAULTS.drainMs,
    ipv6,
  };
}

/** Throws CtlError for a gateway without Envoy. */
function envoyNeeds(
  role: ProxyRole,
  interceptionMode: NonNullable<AgentProxyConfig['interceptionMode']>,
  { dnsAgent, dnsCapture, disableEnvoy }: AgentSettings,
): Pick<AgentPlan, 'runsEnvoy' | 'neededListeners' | 'listenerRequirement'> {
  if (disableEnvoy && role === 'router')
    throw new CtlError('invalid_argument', 'a gateway needs Envoy', { field: 'DISABLE_ENVOY' });
  const envoyAnswersDns = isEnabled(dnsCapture) && !isEnabled(dnsAgent);
  const redirected = [VIRTUAL_INBOUND_LISTENER, VIRTUAL_OUTBOUND_LISTENER, ...(envoyAnswersDns ? [DNS_LISTENER] : [])];
  return {
    runsEnvoy: !disableEnvoy,
    neededListeners: role === 'router' || interceptionMode === 'NONE' ? [] : redirected,
    // IP_TRANSPARENT requires it, see ip(7).
    listenerRequirement:
      interceptionMode === 'TPROXY' ? 'interceptionMode TPROXY needs the capability NET_ADMIN for agent and Envoy' : '',
  };
}

/** The addresses of xDS and of the certificate authority: both may differ from the discovery address. */
function controlPlaneAddresses(
  settings: AgentSettings,
  proxyConfig: AgentProxyConfig,
): { readonly addresses: ControlPlanes; readonly caServer: ControlPlane } {
  const namespace = settings.meshNamespace === '' ? DEFAULT_NAMESPACE : settings.meshNamespace;
  const { customHost } = settings;
  const at = (address: string, source: string, authPolicy: AgentProxyConfig['controlPlaneAuthPolicy']): ControlPlane =>
    controlPlane({ address, source, authPolicy, customHost, namespace });
  const discovery = at(
    proxyConfig.discoveryAddress ?? `${defaultControlPlaneHost(namespace)}:15012`,
    'discoveryAddress',
    proxyConfig.controlPlaneAuthPolicy,
  );
  const [first = '', ...others] = settings.xdsUpstream.split(',').map((address) => address.trim());
  const upstream = (address: string): ControlPlane => at(address, 'XDS_UPSTREAM', proxyConfig.controlPlaneAuthPolicy);
  return {
    addresses: settings.xdsUpstream === '' ? [discovery] : [upstream(first), ...others.map(upstream)],
    // A separate authority has its own policy: the port decides whether it is plain text.
    caServer:
      settings.caAddress === '' || settings.caProvider === WORKLOAD_API
        ? discovery
        : at(settings.caAddress, 'CA_ADDR', undefined),
  };
}

/** The file of the bootstrap template; '' for the built-in bootstrap. */
function templateOf({ templateFile }: AgentSettings, { proxyBootstrapTemplatePath = '' }: AgentProxyConfig): string {
  return templateFile || proxyBootstrapTemplatePath;
}

/** The built-in bootstrap or that of the template, with the override merged into it; empty without Envoy. */
async function wholeBootstrap(
  settings: AgentSettings,
  proxyConfig: AgentProxyConfig,
  input: BootstrapInput,
): Promise<JsonObject> {
  if (settings.disableEnvoy) return {};
  const template = templateOf(settings, proxyConfig);
  const base = template === '' ? bootstrap(input) : fillTemplate(await neededFile(template), input, template);
  if (settings.bootstrapOverride === '') return base;
  const override = await neededFile(settings.bootstrapOverride);
  if (isObject(override)) return overriddenBootstrap(base, override);
  throw new CtlError('invalid_argument', 'expected a partial bootstrap', { file: settings.bootstrapOverride });
}

async function neededFile(path: string): Promise<JsonValue> {
  const data = await readDataFile(path);
  if (data === undefined) throw new CtlError('invalid_argument', 'there is no such file', { file: path });
  return data;
}

/** The agent's ports and those of its Envoy on this machine; 0 is none. Throws a CtlError for two equal ones. */
function portsOf(settings: AgentSettings, proxyConfig: AgentProxyConfig) {
  const ports = {
    admin: proxyConfig.proxyAdminPort ?? DEFAULTS.adminPort,
    status: proxyConfig.statusPort ?? DEFAULTS.statusPort,
    readiness: settings.readinessPort,
    sts: settings.stsPort,
    prometheus: settings.disableInternalTelemetry ? 0 : settings.prometheusPort,
  };
  checkPorts(ports);
  return ports;
}

function checkPorts(ports: Readonly<Record<string, number>>): void {
  const users = new Map<number, string>();
  for (const [use, port] of Object.entries(ports)) {
    if (port === 0) continue;
    if (port > 65_535) throw new CtlError('invalid_argument', `the ${use} port ${port} is more than 65535`);
    const other = users.get(port);
    // The status port also serves everything of the readiness port.
    if (other !== undefined && `${other} ${use}` !== 'status readiness')
      throw new CtlError('invalid_argument', `the ${other} port and the ${use} port are both ${port}`);
    users.set(port, use);
  }
}
