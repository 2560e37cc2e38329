/**
 * The two configuration files that are not resources: the mesh configuration (`--meshConfig`) and the mesh networks
 * (`--networksConfig`). Users often take them unchanged from existing meshes, so fields that meshd does not read are
 * only listed in one warning. A field of a wrong type is an error, and so is an unknown field that resembles a known
 * one.
 */
import type { z } from 'zod';
import { isDnsLabel } from '../core/dns-names.ts';
import { misspeltField, unreadFields, withoutEffect } from './config-fields.ts';
import { shown, type ValidationError, validationErrorsOf } from './parsing/issues.ts';
import { withoutNulls } from './parsing/nulls.ts';
import { removeAt } from './parsing/unknown-fields.ts';
import { brokenText } from './parsing/well-formed-utf16.ts';
import {
  type MeshConfig,
  type MeshNetworks,
  meshConfig,
  meshNetworks,
  type ProxyConfig,
  proxyConfig,
} from './schema/mesh-config.ts';
import { checkConfigSources } from './validate/config-sources.ts';
import { checkLocalityLb, checkTcpKeepalive } from './validate/destination-rule.ts';
import { checkImage } from './validate/proxy-config.ts';
import { checkProxyPorts } from './validate/proxy-ports.ts';
import { each, errorList, type ValidationErrors } from './validate/validation-errors.ts';
import { checkDuration, checkNotNegative, checkWholeLabels, checkWildcardHost } from './validate/values.ts';

export { type ConfigSourceAddress, type ConfigSourceSettings, parseConfigSource } from './config-source.ts';
export type { ExtensionProvider } from './schema/extension-providers.ts';
export type { MeshConfig, MeshNetwork, MeshNetworks, ProxyConfig } from './schema/mesh-config.ts';

/** The result of reading a configuration file: its value and at most one warning, or one problem. */
export type ParsedConfig<T> = { readonly value: T; readonly warning?: string } | { readonly problem: ValidationError };

export function defaultMeshConfig(): MeshConfig {
  return meshConfig.parse({});
}

export function defaultMeshNetworks(): MeshNetworks {
  return meshNetworks.parse({});
}

/**
 * Fields of the mesh configuration that are checked and have no effect in this version. Remove an entry when its
 * feature exists.
 */
const WITHOUT_EFFECT = ['disableEnvoyListenerLog'] as const;

/** Settings of Istio 1.7 that have a replacement, with the replacement. */
function replacedSettings({ certificates }: MeshConfig): string[] {
  if (certificates.length === 0) return [];
  return [
    'certificates has no effect: the control plane has its own certificate, and API servers do not issue ' +
      'certificates for DNS names of Services any more; request them from cert-manager',
  ];
}

/** Fields of `defaultConfig` for which no supported Envoy has a counterpart. */
function unsupportedByEnvoy({ defaultConfig: { statNameLength, tracing = {} } }: MeshConfig): string[] {
  const missing = (['lightstep', 'stackdriver', 'openCensusAgent'] as const).filter((name) => tracing[name]);
  const fields = [
    ...(statNameLength === undefined ? [] : ['defaultConfig.statNameLength']),
    ...missing.map((name) => `defaultConfig.tracing.${name}`),
  ];
  return fields.length === 0 ? [] : [`fields that no supported Envoy has: ${fields.join(', ')}`];
}

/** Envoy requires Cluster.dns_refresh_rate to be more than a millisecond. */
const MIN_DNS_REFRESH_MILLIS = 2;

/** Errors in the order of the checks; the first one is reported. */
function meshConfigErrors(mesh: MeshConfig): readonly ValidationError[] {
  const { errors, found } = errorList();
  checkDuration(errors.at('connectTimeout'), mesh.connectTimeout);
  // 0 means to wait forever.
  checkNotNegative(errors.at('protocolDetectionTimeout'), mesh.protocolDetectionTimeout);
  const { dnsRefreshRate } = mesh;
  if (dnsRefreshRate < MIN_DNS_REFRESH_MILLIS) {
    errors.add(
      ['dnsRefreshRate'],
      `expected a duration of at least ${MIN_DNS_REFRESH_MILLIS}ms, got ${dnsRefreshRate}ms`,
    );
  }
  if (mesh.tcpKeepalive !== undefined) checkTcpKeepalive(mesh.tcpKeepalive, errors.at('tcpKeepalive'));
  checkLocalityLb(mesh.localityLbSetting, errors.at('localityLbSetting'));
  checkProxyPorts(errors, mesh);
  checkImage(errors.at('defaultConfig', 'image'), mesh.defaultConfig.image);
  for (const [index, name] of mesh.trustedConfigNamespaces.entries()) {
    if (name === '*' || isDnsLabel(name)) continue;
    errors.add(['trustedConfigNamespaces', index], `expected the name of a namespace, or *, got "${name}"`);
  }
  checkConfigSources(errors.at('configSources'), mesh.configSources);
  for (const [index, { hosts = [] }] of mesh.serviceSettings.entries())
    each(errors.at('serviceSettings', index, 'hosts'), hosts, checkHostPattern);
  return found;
}

function checkHostPattern(host: string, errors: ValidationErrors): void {
  checkWildcardHost(errors, host);
  checkWholeLabels(errors, host);
}

/** Reads the mesh configuration from the plain data of its YAML; an empty file is the default mesh. */
export function parseMeshConfig(raw: unknown): ParsedConfig<MeshConfig> {
  const parsed = parseTolerantly(meshConfig, raw);
  if ('problem' in parsed) return parsed;
  const [problem] = meshConfigErrors(parsed.value);
  if (problem !== undefined) return { problem };
  const idle = withoutEffect(parsed.value, defaultMeshConfig(), WITHOUT_EFFECT);
  const warnings = [
    parsed.warning,
    idle,
    ...unsupportedByEnvoy(parsed.value),
    ...replacedSettings(parsed.value),
  ].filter((warning) => warning !== undefined);
  return { value: parsed.value, ...(warnings.length === 0 ? {} : { warning: warnings.join('; ') }) };
}

export function parseMeshNetworks(raw: unknown): ParsedConfig<MeshNetworks> {
  const parsed = parseTolerantly(meshNetworks, raw);
  if ('problem' in parsed) return parsed;
  const warnings = [parsed.warning, unknownGateways(parsed.value), localGateways(parsed.value)].filter(
    (warning) => warning !== undefined,
  );
  return { value: parsed.value, ...(warnings.length === 0 ? {} : { warning: warnings.join('; ') }) };
}

/** Maximum number of gateways in a warning. */
const MAX_LISTED = 10;

/** Endpoints that are only reachable through such a gateway are left out: see `model/addresses/network-gateways.ts`. */
function unknownGateways({ networks }: MeshNetworks): string | undefined {
  const fields = Object.entries(networks).flatMap(([name, { gateways }]) =>
    gateways.flatMap(({ address, registryServiceName }, index) =>
      address === undefined && registryServiceName === undefined ? [`networks.${name}.gateways[${index}]`] : [],
    ),
  );
  if (fields.length === 0) return undefined;
  const more = fields.length > MAX_LISTED ? ` and ${fields.length - MAX_LISTED} more` : '';
  const listed = fields.slice(0, MAX_LISTED).join(', ') + more;
  const expected = 'expected the address of a gateway or its registryServiceName';
  return `${expected}: ${listed}; endpoints of a network without another gateway cannot be reached from other networks`;
}

/** As in Istio, the locality of a gateway is that of the endpoints behind it. */
function localGateways({ networks }: MeshNetworks): string | undefined {
  const named = Object.keys(networks).filter((name) =>
    networks[name]?.gateways.some(({ locality }) => locality !== undefined),
  );
  if (named.length === 0) return undefined;
  const more = named.length > MAX_LISTED ? ` and ${named.length - MAX_LISTED} more` : '';
  const listed = named.slice(0, MAX_LISTED).join(', ') + more;
  return `locality of a gateway has no effect, endpoints have their own: networks ${listed}`;
}

/** Reads the configuration of one proxy, for example from the annotation `proxy.mesh.io/config`. */
export function parseProxyConfig(raw: unknown): ParsedConfig<ProxyConfig> {
  const parsed = parseTolerantly(proxyConfig, raw);
  if ('problem' in parsed) return parsed;
  const { errors, found } = errorList();
  checkImage(errors.at('image'), parsed.value.image);
  const [problem] = found;
  return problem === undefined ? parsed : { problem };
}

/**
 * Parses strictly. If the only errors are unknown fields that do not resemble known ones, parses again without them and
 * reports them.
 */
function parseTolerantly<T>(schema: z.ZodType<T>, raw: unknown): ParsedConfig<T> {
  const data = withoutNulls(raw ?? {});
  const broken = brokenText(data);
  if (broken !== undefined) return { problem: broken };
  // Without its unknown fields, a whole ConfigMap would count as the default configuration.
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
  return { problem: validationErrorsOf(second.error.issues)[0] ?? { path: [], message: 'expected a configuration' } };
}
