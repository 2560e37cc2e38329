/**
 * Readers of the values of annotations and labels. Each is bounded in length, and throws a CtlError whose message says
 * what was expected; the caller knows the name.
 */
import { isIP } from 'node:net';
import { isDnsLabel, isDnsSubdomain } from '../../../core/dns-names.ts';
import { CtlError, messageOf } from '../../../core/errors.ts';
import { isObject } from '../../../core/objects.ts';
import { parse } from '../../../core/yaml.ts';
import { parseScopeLevels } from '../../../logging/index.ts';
import { parseProxyConfig } from '../../../resources/index.ts';

/** Maximum length of a single value. */
const MAX_VALUE = 1024;
/** Maximum length of a list: a thousand ports, each of which is an iptables rule. */
const MAX_LIST = 6 * 1024;
/** Maximum length of JSON; all annotations of an object may have 256 KiB. */
const MAX_JSON = 32 * 1024;
/** Maximum length of YAML: its parser compares each key with all others of its object. */
const MAX_YAML = 16 * 1024;
/** Maximum number of variables in `proxyMetadata`. */
const MAX_VARIABLES = 256;
/** Far more than volumes and proxy configurations have. */
const MAX_DEPTH = 32;

export type Reader<T> = (text: string) => T;

export function expected(what: string, got: string): CtlError {
  const shown = got.length > 80 ? `${got.slice(0, 80)}…` : got;
  return new CtlError('invalid_argument', `expected ${what}, got ${JSON.stringify(shown)}`);
}

function bounded(text: string, most: number): string {
  if (text.length <= most) return text;
  throw new CtlError('invalid_argument', `expected at most ${most} characters, got ${text.length}`);
}

/** A single value that matches a pattern. */
function matching(pattern: Pick<RegExp, 'test'>, what: string): Reader<string> {
  return (text) => {
    const value = bounded(text, MAX_VALUE).trim();
    if (pattern.test(value)) return value;
    throw expected(what, text);
  };
}

const TRUE: readonly string[] = ['true', 't', '1'];
const FALSE: readonly string[] = ['false', 'f', '0'];

/** The spellings of Go's `strconv.ParseBool`, which existing manifests have. */
export const boolean: Reader<boolean> = (text) => {
  const value = text.trim().toLowerCase();
  if (TRUE.includes(value)) return true;
  if (FALSE.includes(value)) return false;
  throw expected('true or false', text);
};

/** Also accepts the booleans of YAML 1.1; an empty value is undefined. */
export const switchValue: Reader<boolean | undefined> = (text) => {
  const value = text.trim().toLowerCase();
  if (value === '') return undefined;
  if ([...TRUE, 'yes', 'y', 'on'].includes(value)) return true;
  if ([...FALSE, 'no', 'n', 'off'].includes(value)) return false;
  throw expected('true or false', text);
};

export function wholeNumber(least: number, most: number): Reader<number> {
  return (text) => {
    const value = /^\d{1,10}$/.test(text.trim()) ? Number(text) : Number.NaN;
    if (value >= least && value <= most) return value;
    throw expected(`a whole number from ${least} to ${most}`, text);
  };
}

export function oneOf<const V extends string>(...values: readonly V[]): Reader<V> {
  return (text) => {
    const found = values.find((value) => value === text.trim());
    if (found !== undefined) return found;
    throw expected(`one of ${values.join(', ')}`, text);
  };
}

/** Comma-separated entries; empty ones are left out. */
export function listOf(what: string, isValid: (entry: string) => boolean): Reader<readonly string[]> {
  return (text) => {
    const entries = bounded(text, MAX_LIST)
      .split(',')
      .map((entry) => entry.trim())
      .filter((entry) => entry !== '');
    const wrong = entries.find((entry) => !isValid(entry));
    if (wrong !== undefined) throw expected(what, wrong);
    return [...new Set(entries)];
  };
}

/** A list, or `*` for everything. */
function listOrAll(read: Reader<readonly string[]>): Reader<readonly string[]> {
  return (text) => (text.trim() === '*' ? ['*'] : read(text));
}

function isPort(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535;
}

function isRange(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/');
  const version = isIP(address);
  if (version === 0 || address.includes('%') || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 6 ? 128 : 32));
}

export const ports = listOf('ports from 1 to 65535, separated by commas', isPort);
export const portsOrAll = listOrAll(listOf('ports from 1 to 65535, separated by commas, or *', isPort));
export const ranges = listOf('address ranges such as 10.0.0.0/8, separated by commas', isRange);
export const rangesOrAll = listOrAll(listOf('address ranges such as 10.0.0.0/8, separated by commas, or *', isRange));

/** Names of the kernel: at most 15 characters; iptables reads `+` at the end as a wildcard. */
export const interfaces = listOf('names of network interfaces, separated by commas', (entry) =>
  /^[A-Za-z0-9_.@][A-Za-z0-9_.@-]{0,14}\+?$/.test(entry),
);

/** https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/ */
const QUANTITY = /^\+?(\d+\.?\d*|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d{1,2})?$/;
const SUFFIXES: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** A Kubernetes quantity as a number; NaN for any other string. */
export function quantityValue(text: string): number {
  const [, digits, suffix = ''] = QUANTITY.exec(text) ?? [];
  if (digits === undefined || text.length > 64) return Number.NaN;
  return suffix.length > 1 && /^[eE]/.test(suffix) && SUFFIXES[suffix] === undefined
    ? Number(`${digits}${suffix}`)
    : Number(digits) * (SUFFIXES[suffix] ?? 1);
}

export const quantity: Reader<string> = (text) => {
  const value = text.trim();
  if (quantityValue(value) > 0) return value;
  throw expected('a quantity such as 100m or 128Mi', text);
};

/** Defined as in the reference grammar of image names, without its limits on parts. */
export const image = matching(
  /^[A-Za-z0-9][A-Za-z0-9._:@/-]*$/,
  'an image such as registry.example/ctl-agent:1.0, or auto',
);
export const imageType = matching(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$/, 'a suffix of an image tag');
export const configMapName = matching({ test: isDnsSubdomain }, 'the name of a ConfigMap');
export const networkName = matching(/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/, 'the name of a network');
export const revision = matching(/^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$/, 'the name of a revision');
export const metricsPath = matching(/^\/[!-~]*$/, 'a path that begins with /');

/** `host:port`; IPv6 addresses in brackets. */
export const hostPort: Reader<string> = (text) => {
  const value = bounded(text, MAX_VALUE).trim();
  const [, host = '', port = ''] = /^(.+):(\d{1,5})$/.exec(value) ?? [];
  const named = /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/.test(host);
  if ((named || isIP(host.replace(/^\[(.*)\]$/, '$1')) === 6) && isPort(port)) return value;
  throw expected('host:port', text);
};

const ENVOY_LEVELS = ['trace', 'debug', 'info', 'warning', 'warn', 'error', 'critical', 'off'] as const;

export const envoyLevel = oneOf(...ENVOY_LEVELS);

export const envoyComponentLevels: Reader<string> = (text) => {
  const read = listOf(`<component>:<level>, separated by commas`, (entry) => {
    const level = /^[a-z0-9_]{1,40}:([a-z]+)$/.exec(entry)?.[1];
    return ENVOY_LEVELS.some((each) => each === level);
  });
  return read(text).join(',');
};

/** Levels of the agent's log scopes, as in its flag `--log_output_level`. */
export const agentLevels: Reader<string> = (text) => {
  const value = bounded(text, MAX_VALUE).trim();
  try {
    parseScopeLevels(value, 'ctl-agent');
  } catch (error) {
    throw new CtlError('invalid_argument', `expected <scope>:<level>, separated by commas: ${messageOf(error)}`);
  }
  return value;
};

const TEMPLATE_NAMES = 'names of templates, separated by commas';
const templateNameList = listOf(TEMPLATE_NAMES, (entry) =>
  /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/.test(entry),
);

/** At least one: without any, the Pod would silently have no sidecar. */
export const templateNames: Reader<readonly string[]> = (text) => {
  const names = templateNameList(text);
  if (names.length > 0) return names;
  throw expected(TEMPLATE_NAMES, text);
};

/** Strings that Envoy compares with names of statistics. */
export const statNames = listOf('names without spaces, separated by commas', (entry) => /^[!-~]{1,256}$/.test(entry));

export type JsonRecord = Readonly<Record<string, unknown>>;

export interface WrittenProxyConfig {
  /** The configuration as the author wrote it, without unknown fields. */
  readonly config: JsonRecord;
  /** Names the unknown fields. */
  readonly warning: string | undefined;
}

/** YAML or JSON of a proxy configuration. */
export const proxyConfigText: Reader<WrittenProxyConfig> = (text) => {
  let raw: unknown;
  try {
    raw = parse(bounded(text, MAX_YAML), { logLevel: 'error', maxAliasCount: 0 });
  } catch (error) {
    if (error instanceof CtlError) throw error;
    const [line = ''] = messageOf(error).split('\n');
    if (line.includes('call stack')) throw tooDeep();
    throw new CtlError('invalid_argument', `expected a proxy configuration in YAML or JSON: ${line.replace(/:$/, '')}`);
  }
  if (raw === null || raw === undefined) return { config: {}, warning: undefined };
  if (!isObject(raw)) throw expected('a proxy configuration in YAML or JSON', text);
  checkDepth(raw);
  const parsed = parseProxyConfig(raw);
  if ('problem' in parsed) {
    const { path, message } = parsed.problem;
    throw new CtlError('invalid_argument', `${path.length === 0 ? '' : `${path.join('.')}: `}${message}`);
  }
  const variables = Object.keys(isObject(raw.proxyMetadata) ? raw.proxyMetadata : {}).length;
  if (variables > MAX_VARIABLES) {
    const message = `proxyMetadata: expected at most ${MAX_VARIABLES} variables, got ${variables}`;
    throw new CtlError('invalid_argument', message);
  }
  const known = Object.entries(raw).filter(([field]) => Object.hasOwn(parsed.value, field));
  return { config: Object.fromEntries(known), warning: parsed.warning };
};

function json(text: string): unknown {
  let data: unknown;
  try {
    data = JSON.parse(bounded(text, MAX_JSON));
  } catch (error) {
    if (error instanceof CtlError) throw error;
    throw expected('JSON', text);
  }
  checkDepth(data);
  return data;
}

function tooDeep(): CtlError {
  return new CtlError('invalid_argument', `expected at most ${MAX_DEPTH} levels of objects and lists`);
}

/** Writing a deep value as JSON would exhaust the stack. */
function checkDepth(value: unknown, depth = 0): void {
  if (typeof value !== 'object' || value === null) return;
  if (depth >= MAX_DEPTH) throw tooDeep();
  for (const entry of Object.values(value)) checkDepth(entry, depth + 1);
}

/**
 * JSON objects with names: a list of objects that have a name, or an object of them by name. The API server checks the
 * fields other than the name.
 */
function namedObjects(what: string, isValid: (entry: JsonRecord) => boolean): Reader<readonly JsonRecord[]> {
  return (text) => {
    const data = json(text);
    const entries = Array.isArray(data)
      ? data
      : isObject(data)
        ? Object.entries(data).map(([name, entry]) => (isObject(entry) ? { ...entry, name } : entry))
        : undefined;
    if (entries === undefined || entries.length > 64) throw expected(`JSON of at most 64 ${what}`, text);
    return entries.map((entry: unknown) => {
      if (isObject(entry) && isName(entry.name) && isValid(entry)) return entry;
      throw expected(`JSON of ${what}`, JSON.stringify(entry));
    });
  };
}

function isName(name: unknown): boolean {
  return typeof name === 'string' && isDnsLabel(name);
}

export const volumes = namedObjects('volumes with a name', () => true);
export const volumeMounts = namedObjects(
  'volume mounts with a name and a mountPath',
  ({ mountPath }) => typeof mountPath === 'string' && mountPath.startsWith('/'),
);
