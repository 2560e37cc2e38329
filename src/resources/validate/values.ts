/** Checks of single values that several kinds share: host names, addresses, ports, labels, regexes, durations. */
import { isIP } from 'node:net';
import { isDnsLabel, isDnsSubdomain } from '../../core/dns-names.ts';
import { MAX_MATCHED_PROGRAM, readRegex } from '../../regex/index.ts';
import { shown } from '../parsing/issues.ts';
import type { HeaderMatch } from '../schema/common.ts';
import { each, type ValidationErrors } from './validation-errors.ts';

const MAX_PORT = 65_535;
/** Maximum length of a header value in Envoy's configuration. */
const MAX_HEADER_VALUE = 16_384;
const MAX_HOST = 255;
const MAX_LABEL = 63;

const DNS_LABEL = /^[a-zA-Z0-9_]([-a-zA-Z0-9_]*[a-zA-Z0-9_])?$/;
/** `*`, `*suffix` or `*-suffix`: valid first labels of a wildcard host. */
const WILDCARD_LABEL = /^\*([-a-zA-Z0-9]*[a-zA-Z0-9])?$/;
const LABEL_NAME = /^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/;
/** Separates most host names from addresses quickly: an address begins like this, or has a colon. */
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

/** In lower case, without the dot at the end of a complete name. */
export function plainHost(host: string): string {
  const lower = host.toLowerCase();
  return lower.endsWith('.') ? lower.slice(0, -1) : lower;
}

/** `unix:///PATH` with the path of a file, or `unix://@NAME` for the abstract namespace. */
export function isUnixSocket(address: string): boolean {
  return (address.startsWith('unix:///') && !address.endsWith('/')) || address.startsWith('unix://@');
}

export function checkWildcardHost(errors: ValidationErrors, host: string): void {
  if (!isWildcardDomain(host))
    errors.add([], `expected a host name or a wildcard such as "*.example.com", got ${shown(host)}`);
}

/** A host that is matched by whole labels: a TLS server name (matched by Envoy) or a host that a Sidecar imports. */
export function checkWholeLabels(errors: ValidationErrors, host: string): void {
  if (/^\*[^.]/.test(host)) {
    errors.addForAuthor([], `expected a wildcard for whole labels, such as "*.example.com", got ${shown(host)}`);
  }
}

export function checkHost(errors: ValidationErrors, host: string): void {
  if (!isDomain(host) && !isIpAddress(host)) errors.add([], `expected a host name, got ${shown(host)}`);
}

export function checkPort(errors: ValidationErrors, port: number | undefined): void {
  if (port === undefined) errors.add([], `required, expected a port from 1 to ${MAX_PORT}`);
  else if (port < 1 || port > MAX_PORT) errors.add([], `expected a port from 1 to ${MAX_PORT}, got ${port}`);
}

export function checkOptionalPort(errors: ValidationErrors, port: number | undefined): void {
  if (port !== undefined) checkPort(errors, port);
}

/** Names of subsets and ports. */
export function checkDnsLabel(errors: ValidationErrors, name: string | undefined): void {
  if (name === undefined || name.length > MAX_LABEL || !DNS_LABEL.test(name)) {
    errors.add([], `expected a name of letters, digits and -, at most ${MAX_LABEL} characters, got ${shown(name)}`);
  }
}

/** Durations in milliseconds: at least 1, because a timer uses them. */
export function checkDuration(errors: ValidationErrors, millis: number | undefined): void {
  if (millis !== undefined && millis < 1) errors.add([], `expected a duration of at least 1ms, got ${millis}ms`);
}

export function checkNotNegative(errors: ValidationErrors, value: number | undefined): void {
  if (value !== undefined && value < 0) errors.add([], `expected a number of at least 0, got ${value}`);
}

export function checkPercent(errors: ValidationErrors, value: number | undefined): void {
  if (value !== undefined && !(value >= 0 && value <= 100))
    errors.add([], `expected a percentage from 0 to 100, got ${value}`);
}

/** A regular expression that Envoy evaluates. */
export function checkRegex(errors: ValidationErrors, pattern: string): void {
  if (!errors.spend('regexes', 1)) return;
  const read = readRegex(pattern);
  if ('problem' in read) errors.add([], read.problem);
  else errors.spend('regexSteps', read.size);
}

/** A regular expression for proxy versions, which the control plane evaluates. */
export function checkVersionRegex(errors: ValidationErrors, pattern: string): void {
  if (!errors.spend('versionRegexes', 1)) return;
  const read = readRegex(pattern, MAX_MATCHED_PROGRAM);
  if ('problem' in read) errors.add([], read.problem);
}

export function checkStringMatch(errors: ValidationErrors, match: HeaderMatch | undefined): void {
  if (match !== undefined && 'regex' in match) checkRegex(errors.at('regex'), match.regex);
}

/** Some matches have no effect when empty: an empty prefix matches everything, so the author meant something else. */
export function checkNonEmptyMatch(errors: ValidationErrors, match: HeaderMatch | undefined): void {
  checkStringMatch(errors, match);
  if (match !== undefined && 'prefix' in match && match.prefix === '')
    errors.add(['prefix'], 'expected a prefix that is not empty');
}

export function checkHeaderName(errors: ValidationErrors, name: string): void {
  if (!HEADER_NAME.test(name)) errors.add([], `expected a header name, got ${shown(name)}`);
}

/**
 * A string for a header, such as a path or host after a rewrite: Envoy refuses characters that would end the header.
 */
export function checkHeaderText(errors: ValidationErrors, text: string | undefined): void {
  if (text === undefined) return;
  if (/[\0\r\n]/.test(text)) errors.add([], `expected a string on one line, got ${shown(text)}`);
}

/**
 * A percent sign, and what may follow it: another one, or `COMMAND%`, `COMMAND(arguments)%`,
 * `COMMAND(arguments):length%`.
 */
const PERCENT = /%(%|[A-Z0-9_]+(\(.*?\))?(:\d+)?%)?/gs;

/** A header value to set, in which Envoy replaces commands such as `%REQ(x-id)%`; `%%` is a percent sign. */
export function checkHeaderValue(errors: ValidationErrors, value: string): void {
  checkHeaderText(errors, value);
  if (Buffer.byteLength(value) > MAX_HEADER_VALUE) {
    errors.add([], `expected a header value of at most ${MAX_HEADER_VALUE} bytes, got ${Buffer.byteLength(value)}`);
  }
  if ([...value.matchAll(PERCENT)].some(([, command]) => command === undefined)) {
    errors.add([], `expected "%%" for a percent sign, or a command such as "%REQ(x-id)%", got ${shown(value)}`);
  }
}

export function checkLabels(errors: ValidationErrors, labels: Readonly<Record<string, string>> | undefined): void {
  if (labels === undefined) return;
  for (const [key, value] of Object.entries(labels)) {
    if (!isLabelKey(key)) errors.add([key], 'expected a label key such as "app" or "example.com/app"');
    if (value !== '' && (value.length > MAX_LABEL || !LABEL_NAME.test(value))) {
      errors.add(
        [key],
        `expected a label value of at most ${MAX_LABEL} letters, digits, -, _ and ., got ${shown(value)}`,
      );
    }
  }
}

function isLabelKey(key: string): boolean {
  const slash = key.indexOf('/');
  const name = key.slice(slash + 1);
  if (name.length > MAX_LABEL || !LABEL_NAME.test(name)) return false;
  return slash < 0 || isDnsSubdomain(key.slice(0, slash));
}

/** `.` this namespace, `*` all, `~` none, or a namespace. `*` together with others, or any duplicate, is a mistake. */
export function checkExportTo(errors: ValidationErrors, exportTo: readonly string[] | undefined): void {
  each(errors, exportTo, (entry, at) => {
    if (!['.', '*', '~'].includes(entry) && !isDnsLabel(entry)) {
      at.add([], `expected ".", "*", "~" or a namespace, got ${shown(entry)}`);
    }
  });
  const entries = exportTo ?? [];
  if (new Set(entries).size !== entries.length) errors.add([], 'a namespace may be listed only once');
  if (entries.length > 1 && (entries.includes('*') || entries.includes('~'))) {
    errors.add([], `expected ${entries.includes('*') ? '"*"' : '"~"'} alone, or namespaces without it`);
  }
}

/** `127.0.0.1:8080`, `[::1]:8080`, `0.0.0.0:8080`, `unix:///path`: where a listener sends its connections. */
export function checkDefaultEndpoint(errors: ValidationErrors, endpoint: string): void {
  if (isUnixSocket(endpoint)) return;
  const match = /^(127\.0\.0\.1|0\.0\.0\.0|\[::1\]|\[::\]):(\d{1,5})$/.exec(endpoint);
  const port = Number(match?.[2] ?? 0);
  if (port < 1 || port > MAX_PORT) {
    errors.add(
      [],
      `expected 127.0.0.1:PORT, 0.0.0.0:PORT, [::1]:PORT, [::]:PORT or unix:///PATH, got ${shown(endpoint)}`,
    );
  }
}

/** Protocols that a port of a mesh kind may name. */
const PROTOCOLS: ReadonlySet<string> = new Set(
  'HTTP HTTPS GRPC GRPC-WEB HTTP2 HTTP_PROXY MONGO MYSQL REDIS TCP THRIFT TLS UDP'.split(' '),
);

/** Like {@link checkProtocol}, but the protocol may be absent or empty: it is then detected from the first bytes. */
export function checkOptionalProtocol(errors: ValidationErrors, protocol: string | undefined): void {
  if (protocol !== undefined && protocol !== '') checkProtocol(errors, protocol);
}

/** Compared case-insensitively, as in existing meshes. */
export function checkProtocol(errors: ValidationErrors, protocol: string | undefined): void {
  if (protocol === undefined || !PROTOCOLS.has(protocol.toUpperCase())) {
    errors.add([], `expected one of ${[...PROTOCOLS].join(', ')}, got ${shown(protocol)}`);
  }
}

/**
 * Maximum ports of one document. Each is a cluster, a listener and a route of every proxy that sees it: with 65,535 of
 * them, generation for a whole namespace exceeded its time limit, so that no proxy there received updates.
 */
const MAX_PORTS = 4096;

/** For lists of ports, and of objects that open one port each. */
export function checkPortCount(errors: ValidationErrors, ports: readonly unknown[] | undefined): void {
  const count = ports?.length ?? 0;
  if (count > MAX_PORTS) errors.add([], `expected at most ${MAX_PORTS} entries, got ${count}`);
}
