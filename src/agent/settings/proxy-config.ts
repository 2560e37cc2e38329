/**
 * Reads the proxy configuration: `defaultConfig` of the mesh configuration file, overridden by PROXY_CONFIG. The
 * schemas of ctl-discovery for these need more memory than the whole agent may have, so the few fields that the agent
 * uses are read by a table here; a test checks that both read the same.
 */
import { isUtf8 } from 'node:buffer';
import { lstat, readFile } from 'node:fs/promises';
import { CtlError, messageOf } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';
import type { JsonObject, JsonValue } from '../../protobuf/index.ts';
import { parseDuration } from '../../settings/index.ts';

/** The fields of a proxy configuration that the agent uses. Durations are milliseconds. */
export interface AgentProxyConfig {
  readonly configPath?: string;
  readonly binaryPath?: string;
  readonly serviceCluster?: string;
  readonly drainDuration?: number;
  readonly terminationDrainDuration?: number;
  readonly discoveryAddress?: string;
  readonly proxyAdminPort?: number;
  readonly statusPort?: number;
  readonly concurrency?: number;
  readonly controlPlaneAuthPolicy?: 'NONE' | 'MUTUAL_TLS' | 'INHERIT';
  readonly proxyBootstrapTemplatePath?: string;
  readonly interceptionMode?: 'REDIRECT' | 'TPROXY' | 'NONE';
  readonly statsdUdpAddress?: string;
  readonly proxyMetadata?: Readonly<Record<string, string>>;
  readonly extraStatTags?: readonly string[];
  /** Services with their TLS: see `remote-service.ts`. */
  readonly tracing?: JsonObject;
  readonly envoyAccessLogService?: JsonObject;
  readonly envoyMetricsService?: JsonObject;
  /** How the health of the workload is found out: a probe as Pods have them, see `health/workload-probe.ts`. */
  readonly readinessProbe?: JsonObject;
  /** Told to the control plane, which checks it. */
  readonly gatewayTopology?: JsonObject;
}

/** Reads the value of a field; throws a CtlError whose message tells what was expected. */
type Reader<V> = (value: unknown) => V;

const text: Reader<string> = (value) => {
  if (typeof value === 'string') return value;
  throw new CtlError('invalid_argument', 'expected a string');
};

const milliseconds: Reader<number> = (value) => {
  try {
    return parseDuration(text(value));
  } catch {
    throw new CtlError('invalid_argument', 'expected a duration such as "1.5s" or "1m0s"');
  }
};

const whole =
  (min: number, max: number): Reader<number> =>
  (value) => {
    if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
    throw new CtlError('invalid_argument', `expected a whole number from ${min} to ${max}`);
  };

function oneOf<const V extends string>(...values: readonly V[]): Reader<V> {
  return (value) => {
    const found = values.find((each) => each === value);
    if (found === undefined) throw new CtlError('invalid_argument', `expected one of ${values.join(', ')}`);
    return found;
  };
}

const texts: Reader<readonly string[]> = (value) => {
  if (Array.isArray(value)) return value.map(text);
  throw new CtlError('invalid_argument', 'expected a list of strings');
};

const textMap: Reader<Readonly<Record<string, string>>> = (value) => {
  if (!isObject(value)) throw new CtlError('invalid_argument', 'expected an object of strings');
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, text(each ?? null)]));
};

const object: Reader<JsonObject> = (value) => {
  // The configuration was read from JSON or YAML.
  if (isObject(value)) return value as JsonObject;
  throw new CtlError('invalid_argument', 'expected an object');
};

const port = whole(1, 65_535);

const READERS: { readonly [F in keyof AgentProxyConfig]-?: Reader<NonNullable<AgentProxyConfig[F]>> } = {
  configPath: text,
  binaryPath: text,
  serviceCluster: text,
  drainDuration: milliseconds,
  terminationDrainDuration: milliseconds,
  discoveryAddress: text,
  proxyAdminPort: port,
  statusPort: port,
  concurrency: whole(0, 0x7fffffff),
  controlPlaneAuthPolicy: oneOf('NONE', 'MUTUAL_TLS', 'INHERIT'),
  proxyBootstrapTemplatePath: text,
  interceptionMode: oneOf('REDIRECT', 'TPROXY', 'NONE'),
  statsdUdpAddress: text,
  proxyMetadata: textMap,
  extraStatTags: texts,
  tracing: object,
  envoyAccessLogService: object,
  envoyMetricsService: object,
  readinessProbe: object,
  gatewayTopology: object,
};

/** Fields of a proxy configuration without effect on the agent; a test checks that the control plane knows them. */
export const UNUSED_FIELDS: readonly string[] = [
  'parentShutdownDuration',
  'customConfigFile',
  'statNameLength',
  'holdApplicationUntilProxyStarts',
];

/** Warnings about unknown fields and, in PROXY_CONFIG, which is for the agent only, about fields without effect. */
function withoutEffect(data: unknown, source: string): string[] {
  const fields = isObject(data) ? Object.keys(data).filter((field) => !Object.hasOwn(READERS, field)) : [];
  const list = (names: readonly string[]): string =>
    `${names
      .slice(0, 10)
      .map((name) => JSON.stringify(name.slice(0, 80)))
      .join(', ')}${names.length > 10 ? ', …' : ''}`;
  const unknown = fields.filter((field) => !UNUSED_FIELDS.includes(field));
  const unused = source === 'PROXY_CONFIG' ? fields.filter((field) => UNUSED_FIELDS.includes(field)) : [];
  return [
    ...(unknown.length === 0 ? [] : [`${source}: unknown fields are ignored: ${list(unknown)}`]),
    ...(unused.length === 0 ? [] : [`${source}: fields without effect: ${list(unused)}`]),
  ];
}

/**
 * Reads the fields that the agent uses from the parsed data of a proxy configuration. Other fields are ignored, empty
 * values count as absent. Throws a CtlError that names the field; `source` is where the data comes from.
 */
export function readProxyConfig(data: unknown, source: string): AgentProxyConfig {
  if (data === undefined || data === null) return {};
  if (!isObject(data)) throw new CtlError('invalid_argument', 'expected a configuration', { file: source });
  const entries: [string, unknown][] = [];
  for (const [field, read] of Object.entries(READERS)) {
    const value = data[field];
    if (value === undefined || value === null || value === '') continue;
    try {
      entries.push([field, read(value)]);
    } catch (error) {
      throw new CtlError('invalid_argument', messageOf(error), {
        file: source,
        field,
      });
    }
  }
  // Each reader returns the type of its field; collecting entries loses it.
  return Object.fromEntries(entries) as AgentProxyConfig;
}

/** Parses JSON or YAML. The YAML parser is loaded only for text that is not JSON. */
export async function parseData(source: string, content: string): Promise<JsonValue> {
  try {
    return JSON.parse(content) as JsonValue;
  } catch {
    // Not JSON. YAML is a superset of it, so the YAML parser reports what is wrong with a broken JSON text.
  }
  const { parse } = await import('../../core/yaml.ts');
  try {
    return parse(content, { logLevel: 'error' }) as JsonValue;
  } catch (error) {
    const [first = ''] = String(error instanceof Error ? error.message : error).split('\n');
    throw new CtlError('invalid_argument', `cannot be read as YAML: ${first.replace(/:$/, '')}`, { file: source });
  }
}

/** Reads a file of JSON or YAML; undefined when it does not exist. A dangling link counts as an unreadable file. */
export async function readDataFile(path: string): Promise<JsonValue | undefined> {
  const bytes = await readFile(path).catch(async (error: NodeJS.ErrnoException) => {
    const { code = error.message } = error;
    if (code === 'ENOENT' && !(await isThere(path))) return undefined;
    throw new CtlError('invalid_argument', `cannot be read: ${code}`, { file: path });
  });
  if (bytes === undefined) return undefined;
  if (!isUtf8(bytes))
    throw new CtlError('invalid_argument', 'expected UTF-8: some bytes are not valid', { file: path });
  return parseData(path, bytes.toString('utf8'));
}

async function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

/** The agent's part of the mesh configuration: proxy configuration and trust domain. */
export interface AgentMeshConfig {
  readonly proxyConfig: AgentProxyConfig;
  /** Undefined: the default one. */
  readonly trustDomain: string | undefined;
  /** Fields without effect, one line each. */
  readonly warnings: readonly string[];
}

/** Reads the mesh configuration at `path`; PROXY_CONFIG (YAML or JSON) overrides its `defaultConfig`. */
export async function loadMeshConfig(path: string, proxyConfig: string): Promise<AgentMeshConfig> {
  const data = await readDataFile(path);
  const mesh = data ?? {};
  if (!isObject(mesh)) throw new CtlError('invalid_argument', 'expected a mesh configuration', { file: path });
  const trustDomain = mesh.trustDomain ?? '';
  if (typeof trustDomain !== 'string')
    throw new CtlError('invalid_argument', 'expected a string', { file: path, field: 'trustDomain' });
  // The control plane knows the topology of the mesh configuration, which may have changed since.
  const { gatewayTopology: _, ...below } = readProxyConfig(mesh.defaultConfig, path);
  const own = proxyConfig === '' ? undefined : await parseData('PROXY_CONFIG', proxyConfig);
  const above = readProxyConfig(own, 'PROXY_CONFIG');
  const proxyMetadata = { ...below.proxyMetadata, ...above.proxyMetadata };
  return {
    proxyConfig: { ...below, ...above, ...(Object.keys(proxyMetadata).length === 0 ? {} : { proxyMetadata }) },
    trustDomain: trustDomain === '' ? undefined : trustDomain,
    warnings: [...withoutEffect(mesh.defaultConfig, `${path}: defaultConfig`), ...withoutEffect(own, 'PROXY_CONFIG')],
  };
}
