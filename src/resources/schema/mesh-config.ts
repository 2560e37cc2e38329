/** The fields of the mesh configuration (`--meshConfig`) and of the mesh networks (`--networksConfig`). */
import { z } from 'zod';
import { duration, int32, portNumber, stringMap, strings, uint32 } from './common.ts';
import { localityLbSetting, tcpKeepalive } from './destination-rule.ts';
import { extensionProvider } from './extension-providers.ts';
import { proxyImage } from './proxy-config.ts';
import { clientTlsSettings } from './tls-settings.ts';
import { tracing } from './tracing.ts';
import { readinessProbe } from './workload-group.ts';

const remoteService = z.strictObject({
  address: z.string().optional(),
  tlsSettings: clientTlsSettings.optional(),
  tcpKeepalive: tcpKeepalive.optional(),
});

/** `defaultConfig`, and the annotation `proxy.mesh.io/config`: how a node's proxy runs. */
export const proxyConfig = z.strictObject({
  configPath: z.string().optional(),
  binaryPath: z.string().optional(),
  serviceCluster: z.string().optional(),
  drainDuration: duration.optional(),
  parentShutdownDuration: duration.optional(),
  terminationDrainDuration: duration.optional(),
  discoveryAddress: z.string().optional(),
  proxyAdminPort: portNumber.optional(),
  statusPort: portNumber.optional(),
  concurrency: int32.optional(),
  controlPlaneAuthPolicy: z.enum(['NONE', 'MUTUAL_TLS', 'INHERIT']).optional(),
  customConfigFile: z.string().optional(),
  proxyBootstrapTemplatePath: z.string().optional(),
  interceptionMode: z.enum(['REDIRECT', 'TPROXY', 'NONE']).optional(),
  statNameLength: int32.optional(),
  statsdUdpAddress: z.string().optional(),
  tracing: tracing.optional(),
  envoyAccessLogService: remoteService.optional(),
  envoyMetricsService: remoteService.optional(),
  proxyMetadata: stringMap.optional(),
  extraStatTags: strings.optional(),
  holdApplicationUntilProxyStarts: z.boolean().optional(),
  /** For injected Pods. */
  image: proxyImage.optional(),
  readinessProbe: readinessProbe.optional(),
  /** The proxies in front of gateways: of all, or of a single gateway that sets it in its node metadata. */
  gatewayTopology: z
    .strictObject({
      numTrustedProxies: uint32.optional(),
      forwardClientCertDetails: z
        .enum(['UNDEFINED', 'SANITIZE', 'FORWARD_ONLY', 'APPEND_FORWARD', 'SANITIZE_SET', 'ALWAYS_FORWARD_ONLY'])
        .optional(),
      proxyProtocol: z.strictObject({}).optional(),
    })
    .optional(),
});
export type ProxyConfig = z.output<typeof proxyConfig>;

export const meshConfig = z.strictObject({
  accessLogFile: z.string().default(''),
  accessLogFormat: z.string().default(''),
  accessLogEncoding: z.enum(['TEXT', 'JSON']).default('TEXT'),
  enableEnvoyAccessLogService: z.boolean().default(false),
  disableEnvoyListenerLog: z.boolean().default(false),
  proxyListenPort: portNumber.default(15001),
  proxyInboundListenPort: portNumber.default(15006),
  proxyHttpPort: portNumber.default(0),
  connectTimeout: duration.default(10_000),
  protocolDetectionTimeout: duration.default(5_000),
  tcpKeepalive: tcpKeepalive.optional(),
  dnsRefreshRate: duration.default(5_000),
  /** Patterns for the names of clusters in Envoy's statistics; empty: the names of the clusters. */
  inboundClusterStatName: z.string().default(''),
  outboundClusterStatName: z.string().default(''),
  outboundTrafficPolicy: z
    .strictObject({ mode: z.enum(['ALLOW_ANY', 'REGISTRY_ONLY']).default('ALLOW_ANY') })
    .default({ mode: 'ALLOW_ANY' }),
  h2UpgradePolicy: z.enum(['DO_NOT_UPGRADE', 'UPGRADE']).default('DO_NOT_UPGRADE'),
  enableAutoMtls: z.boolean().default(true),
  enableTracing: z.boolean().default(true),
  /** For injected Pods: whether the agent's metrics include those of the application. */
  enablePrometheusMerge: z.boolean().default(true),
  /** Empty: the namespace of the program. */
  rootNamespace: z.string().default(''),
  trustDomain: z.string().default('cluster.local'),
  trustDomainAliases: strings.default([]),
  defaultServiceExportTo: strings.default(['*']),
  defaultVirtualServiceExportTo: strings.default(['*']),
  defaultDestinationRuleExportTo: strings.default(['*']),
  /**
   * Namespaces whose documents about names of other namespaces apply to all callers, as those of the root namespace do;
   * `*`: all namespaces, as in Istio 1.7.
   */
  trustedConfigNamespaces: strings.default([]),
  /** Limits of calls to Thrift ports, by a service `host` or `host:port`; empty: none. */
  thriftConfig: z
    .strictObject({
      rateLimitUrl: z
        .string()
        .regex(/^(?:[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?)?$/, 'expected host or host:port')
        .default(''),
      rateLimitTimeout: duration.default(50),
    })
    .default({ rateLimitUrl: '', rateLimitTimeout: 50 }),
  defaultConfig: proxyConfig.default({}),
  localityLbSetting: localityLbSetting.default({ enabled: true }),
  ingressClass: z.string().default('mesh'),
  ingressService: z.string().default('mesh-ingressgateway'),
  ingressSelector: z.string().default('ingressgateway'),
  ingressControllerMode: z.enum(['UNSPECIFIED', 'OFF', 'DEFAULT', 'STRICT']).default('STRICT'),
  pathNormalization: z
    .strictObject({
      normalization: z
        .enum(['DEFAULT', 'NONE', 'BASE', 'MERGE_SLASHES', 'DECODE_AND_MERGE_SLASHES'])
        .default('DEFAULT'),
    })
    .default({ normalization: 'DEFAULT' }),
  extensionProviders: z.array(extensionProvider).default([]),
  /** Names of `extensionProviders` that are used unless a Telemetry document names others. */
  defaultProviders: z
    .strictObject({ tracing: strings.optional(), metrics: strings.optional(), accessLogging: strings.optional() })
    .default({}),
  /** Where documents come from, besides the registries: see `config-source.ts`. */
  configSources: z
    .array(z.strictObject({ address: z.string(), tlsSettings: clientTlsSettings.optional() }))
    .default([]),
  /** DNS certificates of Istio 1.7, which its control plane requested from the API server. */
  certificates: z
    .array(z.strictObject({ secretName: z.string().optional(), dnsNames: strings.optional() }))
    .default([]),
  serviceSettings: z
    .array(
      z.strictObject({
        settings: z.strictObject({ clusterLocal: z.boolean().optional() }).optional(),
        hosts: strings.optional(),
      }),
    )
    .default([]),
});

/** The mesh configuration with its defaults filled in. Durations are milliseconds. */
export type MeshConfig = z.output<typeof meshConfig>;

const network = z.strictObject({
  endpoints: z
    .array(z.strictObject({ fromCidr: z.string().optional(), fromRegistry: z.string().optional() }))
    .default([]),
  gateways: z
    .array(
      z.strictObject({
        registryServiceName: z.string().optional(),
        address: z.string().optional(),
        port: portNumber,
        locality: z.string().optional(),
      }),
    )
    .default([]),
});

export const meshNetworks = z.strictObject({ networks: z.record(z.string(), network).default({}) });

/** Which endpoints belong to which network, and the gateways of each network. */
export type MeshNetworks = z.output<typeof meshNetworks>;
export type MeshNetwork = z.output<typeof network>;
