/**
 * The two configuration files that are not resources: the mesh configuration (`--meshConfig`) and the mesh networks
 * (`--networksConfig`). People bring them whole from existing meshes, so fields that meshd does not read are listed in one
 * warning and otherwise ignored; a field that is read and has a wrong type is a problem, and so is an unknown one that was probably
 * meant as a known one.
 */
import { z } from 'zod';
import { misspeltField, unreadFields, withoutEffect } from './config-fields.ts';
import { type Fault, faultsOf, shown } from './issues.ts';
import { withoutNulls } from './nulls.ts';
import { duration, int32, portNumber, stringMap, strings, uint32 } from './schema/common.ts';
import { localityLbSetting, tcpKeepalive } from './schema/destination-rule.ts';
import { clientTlsSettings } from './schema/tls-settings.ts';
import { removeAt } from './unknown-fields.ts';
import { meshConfigFaults } from './validate/mesh-config.ts';
import { brokenText } from './whole-text.ts';

const tracing = z.strictObject({
  zipkin: z.strictObject({ address: z.string().optional() }).optional(),
  sampling: z.number().optional(),
  maxPathTagLength: uint32.optional(),
  customTags: z.record(z.string(), z.json()).optional(),
  tlsSettings: clientTlsSettings.optional(),
});

const remoteService = z.strictObject({
  address: z.string().optional(),
  tlsSettings: clientTlsSettings.optional(),
  tcpKeepalive: tcpKeepalive.optional(),
});

/** `defaultConfig`, and what the annotation `proxy.mesh.io/config` holds: how a node's proxy is run. */
const proxyConfig = z.strictObject({
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
  /** Read of `defaultConfig` alone: what stands in front of the mesh's gateways. */
  gatewayTopology: z
    .strictObject({
      numTrustedProxies: uint32.optional(),
      forwardClientCertDetails: z
        .enum(['UNDEFINED', 'SANITIZE', 'FORWARD_ONLY', 'APPEND_FORWARD', 'SANITIZE_SET', 'ALWAYS_FORWARD_ONLY'])
        .optional(),
    })
    .optional(),
});
export type ProxyConfig = z.output<typeof proxyConfig>;

const authorizer = {
  /** `host` or `namespace/host`: a service of the mesh. */
  service: z.string(),
  port: portNumber,
  timeout: duration.optional(),
  failOpen: z.boolean().default(false),
  /** HTTP status, as text, of what is refused because the authorizer does not answer. */
  statusOnError: z.string().optional(),
  clearRouteCache: z.boolean().default(false),
  includeRequestBodyInCheck: z
    .strictObject({
      maxRequestBytes: uint32,
      allowPartialMessage: z.boolean().default(false),
      packAsBytes: z.boolean().default(false),
    })
    .optional(),
};

/** Services that policies ask: the two kinds of external authorizer. A provider of another kind has neither. */
const extensionProvider = z.strictObject({
  name: z.string(),
  envoyExtAuthzGrpc: z.strictObject(authorizer).optional(),
  envoyExtAuthzHttp: z
    .strictObject({
      ...authorizer,
      pathPrefix: z.string().default(''),
      /** The older name of `includeRequestHeadersInCheck`. */
      includeHeadersInCheck: strings.default([]),
      includeRequestHeadersInCheck: strings.default([]),
      includeAdditionalHeadersInCheck: stringMap.default({}),
      headersToUpstreamOnAllow: strings.default([]),
      headersToDownstreamOnDeny: strings.default([]),
      headersToDownstreamOnAllow: strings.default([]),
    })
    .optional(),
});

export type ExtensionProvider = z.output<typeof extensionProvider>;

const meshConfig = z.strictObject({
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
  outboundTrafficPolicy: z
    .strictObject({ mode: z.enum(['ALLOW_ANY', 'REGISTRY_ONLY']).default('ALLOW_ANY') })
    .default({ mode: 'ALLOW_ANY' }),
  h2UpgradePolicy: z.enum(['DO_NOT_UPGRADE', 'UPGRADE']).default('DO_NOT_UPGRADE'),
  enableAutoMtls: z.boolean().default(true),
  enableTracing: z.boolean().default(true),
  enablePrometheusMerge: z.boolean().default(false),
  /** Empty: the namespace of the program. */
  rootNamespace: z.string().default(''),
  trustDomain: z.string().default('cluster.local'),
  trustDomainAliases: strings.default([]),
  defaultServiceExportTo: strings.default(['*']),
  defaultVirtualServiceExportTo: strings.default(['*']),
  defaultDestinationRuleExportTo: strings.default(['*']),
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

const meshNetworks = z.strictObject({ networks: z.record(z.string(), network).default({}) });

/** Which endpoints belong to which network, and through which gateways a network is entered. */
export type MeshNetworks = z.output<typeof meshNetworks>;
export type MeshNetwork = z.output<typeof network>;

/** What came of a configuration file: its value and one warning at most, or one problem. */
export type ParsedConfig<T> = { readonly value: T; readonly warning?: string } | { readonly problem: Fault };

export function defaultMeshConfig(): MeshConfig {
  return meshConfig.parse({});
}

export function defaultMeshNetworks(): MeshNetworks {
  return meshNetworks.parse({});
}

/** Fields of the mesh configuration that are checked and have no effect in this version. An entry goes when what it speaks of exists. */
const WITHOUT_EFFECT = [
  'disableEnvoyListenerLog',
  'enableEnvoyAccessLogService',
  'enablePrometheusMerge',
  'enableTracing',
  'ingressClass',
  'ingressControllerMode',
  'ingressSelector',
  'ingressService',
  'proxyHttpPort',
  'serviceSettings',
] as const;

/** Reads the mesh configuration from the plain data of its YAML; an empty file is the default mesh. */
export function parseMeshConfig(raw: unknown): ParsedConfig<MeshConfig> {
  const parsed = parseTolerantly(meshConfig, raw);
  if ('problem' in parsed) return parsed;
  const [fault] = meshConfigFaults(parsed.value);
  if (fault !== undefined) return { problem: fault };
  const idle = withoutEffect(parsed.value, defaultMeshConfig(), WITHOUT_EFFECT);
  const warnings = [parsed.warning, idle].filter((warning) => warning !== undefined);
  return { value: parsed.value, ...(warnings.length === 0 ? {} : { warning: warnings.join('; ') }) };
}

export function parseMeshNetworks(raw: unknown): ParsedConfig<MeshNetworks> {
  return parseTolerantly(meshNetworks, raw);
}

/** Reads one proxy's configuration, such as the annotation `proxy.mesh.io/config` holds it. */
export function parseProxyConfig(raw: unknown): ParsedConfig<ProxyConfig> {
  return parseTolerantly(proxyConfig, raw);
}

/** Parses strictly; when only unknown fields are in the way that were not meant as known ones, parses again without them and names them. */
function parseTolerantly<T>(schema: z.ZodType<T>, raw: unknown): ParsedConfig<T> {
  const data = withoutNulls(raw ?? {});
  const broken = brokenText(data);
  if (broken !== undefined) return { problem: broken };
  // Without its unknown fields, a ConfigMap around the configuration would be the default one.
  if (typeof data === 'object' && data !== null && 'apiVersion' in data && 'kind' in data) {
    return {
      problem: { path: ['kind'], message: `expected the configuration itself, got a ${shown(data.kind)} document` },
    };
  }
  const first = schema.safeParse(data, { reportInput: true });
  if (first.success) return { value: first.data };
  const unknown = first.error.issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...issue.path, key]) : [],
  );
  const misspelt = misspeltField(schema, data, unknown);
  if (misspelt !== undefined) return { problem: misspelt };
  const copy = structuredClone(data);
  for (const path of unknown) removeAt(copy, path);
  const second = schema.safeParse(copy, { reportInput: true });
  if (second.success) {
    const warning = unreadFields(unknown);
    return { value: second.data, ...(warning === undefined ? {} : { warning }) };
  }
  return { problem: faultsOf(second.error.issues)[0] ?? { path: [], message: 'expected a configuration' } };
}
