/**
 * The two configuration files that are not resources: the mesh configuration (`--meshConfig`) and the mesh networks
 * (`--networksConfig`). People bring them whole from existing meshes, so fields that meshd does not read are listed in
 * one warning and otherwise ignored; a field that is read and has a wrong type is a problem, and so is an unknown one
 * that was probably meant as a known one.
 */
import type { z } from 'zod';
import { misspeltField, unreadFields, withoutEffect } from './config-fields.ts';
import { type Fault, faultsOf, shown } from './issues.ts';
import { withoutNulls } from './nulls.ts';
import {
  type MeshConfig,
  type MeshNetworks,
  meshConfig,
  meshNetworks,
  type ProxyConfig,
  proxyConfig,
} from './schema/mesh-config.ts';
import { removeAt } from './unknown-fields.ts';
import { meshConfigErrors } from './validate/mesh-config.ts';
import { brokenText } from './well-formed-utf16.ts';

export type { ExtensionProvider, MeshConfig, MeshNetwork, MeshNetworks, ProxyConfig } from './schema/mesh-config.ts';

/** What came of a configuration file: its value and one warning at most, or one problem. */
export type ParsedConfig<T> = { readonly value: T; readonly warning?: string } | { readonly problem: Fault };

export function defaultMeshConfig(): MeshConfig {
  return meshConfig.parse({});
}

export function defaultMeshNetworks(): MeshNetworks {
  return meshNetworks.parse({});
}

/**
 * Fields of the mesh configuration that are checked and have no effect in this version. An entry goes when what it
 * speaks of exists.
 */
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
  const [fault] = meshConfigErrors(parsed.value);
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

/**
 * Parses strictly; when only unknown fields are in the way that were not meant as known ones, parses again without them
 * and names them.
 */
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
