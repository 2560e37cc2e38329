/** Lets the real Envoy validate a configuration: `envoy --mode validate` with a static bootstrap. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { SDS_CLUSTER } from '../../src/core/proxy.ts';
import type { JsonObject, JsonValue } from '../../src/protobuf/index.ts';
import { envoyPath, oldestEnvoyPath } from '../harness/envoy.ts';
import { isObject, nameOf } from './json.ts';
import type { ProxyOutput } from './output.ts';

const run = promisify(execFile);

/** Golden files name certificates in `/certs/`: `tls.crt`, `tls.key` (a pair for tests only) and `ca.crt`. */
const CERTIFICATES = '/certs/';
/** The file from which Envoys without an agent read the system's authorities. It may be missing on this machine. */
const SYSTEM_AUTHORITIES = '/etc/ssl/certs/ca-certificates.crt';
const TEST_CERTIFICATES = fileURLToPath(new URL('certs/', import.meta.url));

/** The agent's socket, from which a proxy gets certificates, as in the agent's bootstrap. Nothing listens there. */
const AGENT: JsonObject = {
  name: SDS_CLUSTER,
  type: 'STATIC',
  typed_extension_protocol_options: {
    'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
      '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
      explicit_http_config: { http2_protocol_options: {} },
    },
  },
  load_assignment: {
    cluster_name: SDS_CLUSTER,
    endpoints: [{ lb_endpoints: [{ endpoint: { address: { pipe: { path: '/tmp/nobody.sock' } } } }] }],
  },
};

/** As in the agent's bootstrap: older Envoys accept only short regular expressions by default. */
const RUNTIME: JsonObject = { 're2.max_program_size.error_level': 32_768 };

/** The binaries that validate golden files; undefined when there is none. */
export function envoyBinaries(): { readonly newest: string | undefined; readonly oldest: string | undefined } {
  const [newest, oldest] = [envoyPath(), oldestEnvoyPath()].map((path) => (existsSync(path) ? path : undefined));
  return { newest, oldest };
}

/**
 * The whole configuration of a proxy as one static bootstrap. Endpoints, routes and secrets are inlined, because Envoy
 * would otherwise not check them before it fetches them.
 */
export function bootstrapOf(output: ProxyOutput): JsonObject {
  const assignments = new Map(output.endpoints.map((assignment) => [nameOf(assignment), assignment]));
  const secrets = new Map(output.secrets.map((secret) => [nameOf(secret), secret]));
  const routes = new Map(output.routes.map((route) => [nameOf(route), withHosts(route, output.virtual_hosts)]));
  const extensions = new Map(output.extension_configs.map((extension) => [nameOf(extension), extension]));
  return {
    node: { id: 'golden', cluster: 'golden' },
    layered_runtime: { layers: [{ name: 'static', static_layer: RUNTIME }] },
    static_resources: {
      clusters: [
        AGENT,
        ...(output.clusters.map((cluster) =>
          withSecrets(withEndpoints(cluster, assignments), secrets),
        ) as JsonObject[]),
      ],
      listeners: output.listeners.map((listener) =>
        withSecrets(withExtensions(withRoutes(listener, routes), extensions), secrets),
      ) as JsonObject[],
    },
  };
}

/** Without the filters of these names, of whatever kind. */
export function withoutFilters(value: JsonObject, names: readonly string[]): JsonObject {
  return names.length === 0 ? value : (without(value, new Set(names)) as JsonObject);
}

function without(value: JsonValue, names: ReadonlySet<string>): JsonValue {
  if (Array.isArray(value)) {
    const kept = value.filter((item: JsonValue) => !(isObject(item) && names.has(nameOf(item))));
    return kept.map((item: JsonValue) => without(item, names));
  }
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, without(item, names)]));
}

/** Resolves with Envoy's warnings if it accepts the bootstrap; rejects with its message if it does not. */
export async function validate(binary: string, bootstrap: JsonObject): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'golden-'));
  try {
    const file = join(folder, 'bootstrap.json');
    const text = JSON.stringify(bootstrap)
      .replaceAll(`"${CERTIFICATES}`, `"${TEST_CERTIFICATES}`)
      .replaceAll(`"${SYSTEM_AUTHORITIES}"`, `"${TEST_CERTIFICATES}ca.crt"`);
    await writeFile(file, text);
    const { stdout, stderr } = await run(binary, [
      '--mode',
      'validate',
      '-c',
      file,
      '--log-level',
      'warning',
      '--concurrency',
      '1',
    ]);
    return `${stdout}${stderr}`;
  } catch (error) {
    throw new Error(`Envoy does not take it: ${complaintOf(error)}`);
  } finally {
    await rm(folder, { recursive: true });
  }
}

function complaintOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const said = [error as { stdout?: string; stderr?: string }].flatMap(({ stdout, stderr }) => [stdout, stderr]);
  return said.join('\n').trim() || error.message;
}

function withEndpoints(cluster: JsonObject, assignments: ReadonlyMap<string, JsonObject>): JsonObject {
  const { eds_cluster_config: eds, ...rest } = cluster;
  if (!isObject(eds)) return cluster;
  return {
    ...rest,
    type: 'STATIC',
    load_assignment: assignments.get(String(eds.service_name ?? cluster.name)) ?? null,
  };
}

/** Replaces each HTTP connection manager's `rds` by the route configuration that it names. */
/** A route configuration that includes the virtual hosts that it leaves to discovery. */
function withHosts({ vhds, ...route }: JsonObject, hosts: readonly JsonObject[]): JsonObject {
  if (vhds === undefined) return route;
  const prefix = `${nameOf(route)}/`;
  return { ...route, virtual_hosts: hosts.filter((host) => nameOf(host).startsWith(prefix)) };
}

function withRoutes(value: JsonValue, routes: ReadonlyMap<string, JsonObject>): JsonValue {
  if (Array.isArray(value)) return value.map((item: JsonValue) => withRoutes(item, routes));
  if (!isObject(value)) return value;
  const { rds, ...rest } = value;
  const fields = Object.fromEntries(Object.entries(rest).map(([key, item]) => [key, withRoutes(item, routes)]));
  if (!isObject(rds)) return fields;
  return { ...fields, route_config: routes.get(String(rds.route_config_name)) ?? null };
}

/** Replaces the names of secrets over ADS in each TLS context by their content. */
function withSecrets(value: JsonValue, secrets: ReadonlyMap<string, JsonObject>): JsonValue {
  if (Array.isArray(value)) return value.map((item: JsonValue) => withSecrets(item, secrets));
  if (!isObject(value)) return value;
  const { tls_certificate_sds_secret_configs: own, combined_validation_context: trusted, ...rest } = value;
  const fields = Object.fromEntries(Object.entries(rest).map(([key, item]) => [key, withSecrets(item, secrets)]));
  const held = (config: JsonValue, field: string): JsonValue => {
    const secret = isObject(config) ? secrets.get(String(config.name)) : undefined;
    if (secret === undefined) throw new Error(`nothing answers for the secret ${JSON.stringify(config)}`);
    return secret[field] ?? null;
  };
  const merged: Record<string, JsonValue> = {};
  if (own !== undefined) {
    if (isOverAds(own)) merged.tls_certificates = (own as JsonValue[]).map((each) => held(each, 'tls_certificate'));
    else merged.tls_certificate_sds_secret_configs = own;
  }
  if (isObject(trusted)) {
    const { default_validation_context: written, validation_context_sds_secret_config: config } = trusted;
    if (isOverAds([config ?? null])) {
      const context = held(config ?? null, 'validation_context');
      merged.validation_context = { ...(isObject(written) ? written : {}), ...(isObject(context) ? context : {}) };
    } else merged.combined_validation_context = trusted;
  }
  return { ...fields, ...merged };
}

function isOverAds(configs: JsonValue): boolean {
  if (!Array.isArray(configs)) return false;
  return configs.some(
    (config: JsonValue) => isObject(config) && isObject(config.sds_config) && 'ads' in config.sds_config,
  );
}

/** Replaces each filter's `config_discovery` by the configuration of its name. */
function withExtensions(value: JsonValue, extensions: ReadonlyMap<string, JsonObject>): JsonValue {
  if (Array.isArray(value)) return value.map((item: JsonValue) => withExtensions(item, extensions));
  if (!isObject(value)) return value;
  const { config_discovery: discovery, ...rest } = value;
  const fields = Object.fromEntries(Object.entries(rest).map(([key, item]) => [key, withExtensions(item, extensions)]));
  if (discovery === undefined) return fields;
  return { ...fields, typed_config: extensions.get(nameOf(fields))?.typed_config ?? null };
}
