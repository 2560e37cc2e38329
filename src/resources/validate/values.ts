/** Checks of single values that several kinds share: host names, addresses, ports, labels, regexes, durations. */
import { createRequire } from 'node:module';
import { isIP } from 'node:net';
import { messageOf } from '../../core/errors.ts';
import { shown } from '../issues.ts';
import type { HeaderMatch } from '../schema/common.ts';
import { each, type ValidationErrors } from './validation-errors.ts';

type Re2 = typeof import('re2js').RE2JS;
let loadedRe2: Re2 | undefined;

/**
 * Longest regular expression taken: RE2 runs in linear time, but its program's size follows the pattern's
 * (CVE-2022-39278).
 */
export const MAX_REGEX_LENGTH = 1024;
/**
 * Largest program of a regular expression: short patterns can make large ones (`(\\w{30}){30}`). Envoy counts several
 * instructions where RE2JS counts one, and refuses whole route configurations from `re2.max_program_size.error_level`
 * on, which bootstraps set to 32768.
 */
const MAX_REGEX_PROGRAM = 4096;
const MAX_PORT = 65_535;
/** Longest header value that Envoy takes in a configuration. */
const MAX_HEADER_VALUE = 16_384;
const MAX_HOST = 255;
const MAX_LABEL = 63;

const DNS_LABEL = /^[a-zA-Z0-9_]([-a-zA-Z0-9_]*[a-zA-Z0-9_])?$/;
/** `*`, `*suffix` or `*-suffix`: what the first label of a wildcard host may be. */
const WILDCARD_LABEL = /^\*([-a-zA-Z0-9]*[a-zA-Z0-9])?$/;
const RFC1123_LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const LABEL_NAME = /^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/;
const LABEL_PREFIX = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
/** Tells most host names from addresses at a glance: an address begins so, or has a colon. */
const STARTS_WITH_DIGIT = /^\d/;
/** RFC 9110 field name (token), and HTTP/2 pseudo headers. */
const HEADER_NAME = /^:?[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** A host without wildcard: short (`reviews`) or qualified. */
export function isDomain(host: string): boolean {
  const bare = host.endsWith('.') ? host.slice(0, -1) : host;
  return (
    bare.length <= MAX_HOST && bare.split('.').every((label) => label.length <= MAX_LABEL && DNS_LABEL.test(label))
  );
}

/** A host that may begin with a wildcard: `*`, `*.example.com`, `*-db.example.com`. */
function isWildcardDomain(host: string): boolean {
  if (host === '*') return true;
  if (host.length > MAX_HOST) return false;
  const [first = '', ...rest] = host.split('.');
  return rest.length === 0 || !first.startsWith('*')
    ? isDomain(host) || WILDCARD_LABEL.test(host)
    : WILDCARD_LABEL.test(first) && isDomain(rest.join('.'));
}

/** IP address, or IP address with prefix length. */
export function isCidr(text: string): boolean {
  const slash = text.indexOf('/');
  const family = isIP(slash < 0 ? text : text.slice(0, slash));
  if (family === 0 || slash < 0) return family !== 0;
  const bits = text.slice(slash + 1);
  return /^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128);
}

export function isIpAddress(text: string): boolean {
  return (STARTS_WITH_DIGIT.test(text) || text.includes(':')) && isIP(text) !== 0;
}

/** Whether wildcard hosts `a` and `b` have a name in common, one being a suffix pattern of the other. */
export function hostCovers(pattern: string, host: string): boolean {
  const [covering, covered] = [plainHost(pattern), plainHost(host)];
  if (!covering.startsWith('*')) return covering === covered;
  const name = covered.startsWith('*') ? covered.slice(1) : covered;
  return name.endsWith(covering.slice(1));
}

/** In lower case, without the dot that says that the name is complete. */
function plainHost(host: string): string {
  const lower = host.toLowerCase();
  return lower.endsWith('.') ? lower.slice(0, -1) : lower;
}

/** `unix:///PATH`, where the path is a file's, or `unix://@NAME` for one in the abstract namespace. */
export function isUnixSocket(address: string): boolean {
  return (address.startsWith('unix:///') && !address.endsWith('/')) || address.startsWith('unix://@');
}

export function checkWildcardHost(faults: ValidationErrors, host: string): void {
  if (!isWildcardDomain(host))
    faults.add([], `expected a host name or a wildcard such as "*.example.com", got ${shown(host)}`);
}

export function checkHost(faults: ValidationErrors, host: string): void {
  if (!isDomain(host) && !isIpAddress(host)) faults.add([], `expected a host name, got ${shown(host)}`);
}

export function checkPort(faults: ValidationErrors, port: number | undefined): void {
  if (port === undefined) faults.add([], `required, expected a port from 1 to ${MAX_PORT}`);
  else if (port < 1 || port > MAX_PORT) faults.add([], `expected a port from 1 to ${MAX_PORT}, got ${port}`);
}

export function checkOptionalPort(faults: ValidationErrors, port: number | undefined): void {
  if (port !== undefined) checkPort(faults, port);
}

/** Names of subsets and ports. */
export function checkDnsLabel(faults: ValidationErrors, name: string | undefined): void {
  if (name === undefined || name.length > MAX_LABEL || !DNS_LABEL.test(name)) {
    faults.add([], `expected a name of letters, digits and -, at most ${MAX_LABEL} characters, got ${shown(name)}`);
  }
}

/** Durations in milliseconds: at least one where something waits for them. */
export function checkDuration(faults: ValidationErrors, millis: number | undefined): void {
  if (millis !== undefined && millis < 1) faults.add([], `expected a duration of at least 1ms, got ${millis}ms`);
}

export function checkNotNegative(faults: ValidationErrors, value: number | undefined): void {
  if (value !== undefined && value < 0) faults.add([], `expected a number from 0, got ${value}`);
}

export function checkPercent(faults: ValidationErrors, value: number | undefined): void {
  if (value !== undefined && !(value >= 0 && value <= 100))
    faults.add([], `expected a percentage from 0 to 100, got ${value}`);
}

/** The regular expression library, loaded with the first expression: most meshes have none. */
function re2(): Re2 {
  loadedRe2 ??= (createRequire(import.meta.url)('re2js') as typeof import('re2js')).RE2JS;
  return loadedRe2;
}

/** A backslash with what it escapes, and the code of a `\\x{…}`. */
const ESCAPE = /\\(x\{([0-9a-fA-F]+)\}|.)/gs;

export function checkRegex(faults: ValidationErrors, pattern: string): void {
  if (pattern === '') {
    faults.add([], 'expected a regular expression that is not empty');
    return;
  }
  if (pattern.length > MAX_REGEX_LENGTH) {
    faults.add([], `expected a regular expression of at most ${MAX_REGEX_LENGTH} characters, got ${pattern.length}`);
    return;
  }
  for (const [written, , code = '0'] of pattern.matchAll(ESCAPE)) {
    // Envoy's RE2 compares bytes, and refuses a code that is more than one.
    if (Number.parseInt(code, 16) > 0xff) faults.add([], `expected the character itself instead of ${written}`);
  }
  try {
    const size = re2().compile(pattern).programSize();
    if (size > MAX_REGEX_PROGRAM)
      faults.add(
        [],
        `expected a simpler regular expression: its program has ${size} steps, at most ${MAX_REGEX_PROGRAM}`,
      );
  } catch (cause) {
    faults.add([], `expected a regular expression (RE2): ${messageOf(cause)}`);
  }
}

/**
 * Whether a text contains a match of a regular expression that {@link checkRegex} accepts. Takes time that is linear in
 * the text's length.
 */
export function matchesRegex(pattern: string, text: string): boolean {
  return re2().compile(pattern).matcher(text).find();
}

export function checkStringMatch(faults: ValidationErrors, match: HeaderMatch | undefined): void {
  if (match !== undefined && 'regex' in match) checkRegex(faults.at('regex'), match.regex);
}

/** Some matches are pointless when empty: an empty prefix matches everything, so the writer meant something else. */
export function checkNonEmptyMatch(faults: ValidationErrors, match: HeaderMatch | undefined): void {
  checkStringMatch(faults, match);
  if (match !== undefined && 'prefix' in match && match.prefix === '')
    faults.add(['prefix'], 'expected a prefix that is not empty');
}

export function checkHeaderName(faults: ValidationErrors, name: string): void {
  if (!HEADER_NAME.test(name)) faults.add([], `expected a header name, got ${shown(name)}`);
}

/**
 * Text that ends up in a header, such as a path or host that is rewritten to: Envoy refuses what would end the header.
 */
export function checkHeaderText(faults: ValidationErrors, text: string | undefined): void {
  if (text === undefined) return;
  if (/[\0\r\n]/.test(text)) faults.add([], `expected text on one line, got ${shown(text)}`);
}

/**
 * A percent sign, and what may follow it: another one, or `COMMAND%`, `COMMAND(arguments)%`,
 * `COMMAND(arguments):length%`.
 */
const PERCENT = /%(%|[A-Z0-9_]+(\(.*?\))?(:\d+)?%)?/gs;

/** A header value to set, in which Envoy replaces commands such as `%REQ(x-id)%`; `%%` is a percent sign. */
export function checkHeaderValue(faults: ValidationErrors, value: string): void {
  checkHeaderText(faults, value);
  if (Buffer.byteLength(value) > MAX_HEADER_VALUE) {
    faults.add([], `expected a header value of at most ${MAX_HEADER_VALUE} bytes, got ${Buffer.byteLength(value)}`);
  }
  if ([...value.matchAll(PERCENT)].some(([, command]) => command === undefined)) {
    faults.add([], `expected "%%" for a percent sign, or a command such as "%REQ(x-id)%", got ${shown(value)}`);
  }
}

export function checkLabels(faults: ValidationErrors, labels: Readonly<Record<string, string>> | undefined): void {
  if (labels === undefined) return;
  for (const [key, value] of Object.entries(labels)) {
    if (!isLabelKey(key)) faults.add([key], 'expected a label key such as "app" or "example.com/app"');
    if (value !== '' && (value.length > MAX_LABEL || !LABEL_NAME.test(value))) {
      faults.add(
        [key],
        `expected a label value of at most ${MAX_LABEL} letters, digits, -, _ and ., got ${shown(value)}`,
      );
    }
  }
}

/** Labels of a selector that is there: without any it would select everybody, and say that it selects some. */
export function checkSelectorLabels(
  faults: ValidationErrors,
  selector: object | undefined,
  labels: Readonly<Record<string, string>> | undefined,
): void {
  if (selector !== undefined && Object.keys(labels ?? {}).length === 0) {
    faults.add([], 'required, expected at least one label');
  }
  checkLabels(faults, labels);
}

function isLabelKey(key: string): boolean {
  const slash = key.indexOf('/');
  const name = key.slice(slash + 1);
  if (name.length > MAX_LABEL || !LABEL_NAME.test(name)) return false;
  return slash < 0 || (slash <= 253 && LABEL_PREFIX.test(key.slice(0, slash)));
}

export function isNamespace(name: string): boolean {
  return name.length <= MAX_LABEL && RFC1123_LABEL.test(name);
}

/** `.` this namespace, `*` all, `~` none, or a namespace. `*` beside others, or anything twice, is a mistake. */
export function checkExportTo(faults: ValidationErrors, exportTo: readonly string[] | undefined): void {
  each(faults, exportTo, (entry, at) => {
    if (!['.', '*', '~'].includes(entry) && !isNamespace(entry)) {
      at.add([], `expected ".", "*", "~" or a namespace, got ${shown(entry)}`);
    }
  });
  const entries = exportTo ?? [];
  if (new Set(entries).size !== entries.length) faults.add([], 'expected each namespace once');
  if (entries.length > 1 && (entries.includes('*') || entries.includes('~'))) {
    faults.add([], `expected ${entries.includes('*') ? '"*"' : '"~"'} alone, or namespaces without it`);
  }
}

/** `127.0.0.1:8080`, `[::1]:8080`, `0.0.0.0:8080`, `unix:///path`: where a listener hands its connections to. */
export function checkDefaultEndpoint(faults: ValidationErrors, endpoint: string): void {
  if (isUnixSocket(endpoint)) return;
  const match = /^(127\.0\.0\.1|0\.0\.0\.0|\[::1\]|\[::\]):(\d{1,5})$/.exec(endpoint);
  const port = Number(match?.[2] ?? 0);
  if (port < 1 || port > MAX_PORT) {
    faults.add(
      [],
      `expected 127.0.0.1:PORT, 0.0.0.0:PORT, [::1]:PORT, [::]:PORT or unix:///PATH, got ${shown(endpoint)}`,
    );
  }
}

/** Protocols that a port of a mesh kind may name. */
const PROTOCOLS: ReadonlySet<string> = new Set(
  'HTTP HTTPS GRPC GRPC-WEB HTTP2 HTTP_PROXY MONGO MYSQL REDIS TCP TLS UDP'.split(' '),
);

/** As {@link checkProtocol}, where one that is not said, or empty, is found out from the first bytes. */
export function checkOptionalProtocol(faults: ValidationErrors, protocol: string | undefined): void {
  if (protocol !== undefined && protocol !== '') checkProtocol(faults, protocol);
}

/** Compared without regard to case, as the field's meshes do. */
export function checkProtocol(faults: ValidationErrors, protocol: string | undefined): void {
  if (protocol === undefined || !PROTOCOLS.has(protocol.toUpperCase())) {
    faults.add([], `expected one of ${[...PROTOCOLS].join(', ')}, got ${shown(protocol)}`);
  }
}

/**
 * Most ports of one document. Each is a cluster, a listener and a route of every proxy that sees it: 65,535 of them
 * took the generation of a whole namespace longer than it may take, so that no proxy there got anything new.
 */
const MAX_PORTS = 4096;

/** For lists of ports, and of what opens one port each. */
export function checkPortCount(faults: ValidationErrors, ports: readonly unknown[] | undefined): void {
  const count = ports?.length ?? 0;
  if (count > MAX_PORTS) faults.add([], `expected at most ${MAX_PORTS} entries, got ${count}`);
}
