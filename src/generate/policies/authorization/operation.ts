/** Attributes of the request and its source: hosts, methods, paths, ports and addresses. */
import { isPathTemplate } from '../../../resources/index.ts';
import { cidrRange } from '../../common/index.ts';
import {
  ALWAYS,
  allOf,
  anyOf,
  type Condition,
  leaf,
  NEVER,
  not,
  type PermissionLeaf,
  type PrincipalLeaf,
} from './condition.ts';
import { escapeRegex, parsePattern, regexMatcher, type StringMatcher, stringMatcher } from './text.ts';

type What = Condition<PermissionLeaf>;
type Who = Condition<PrincipalLeaf>;

/**
 * How a value with several spellings is matched. An allowing rule matches strictly, a denying rule matches loosely, so
 * that in doubt a request is refused.
 */
export type Reading = 'narrow' | 'wide';

/** A value without meaning (validation refuses it): it never allows, and always denies. */
export function unclear(reading: Reading): typeof ALWAYS | typeof NEVER {
  return reading === 'wide' ? ALWAYS : NEVER;
}

/**
 * Hosts, case-insensitive, with or without a port, and with or without the dot that ends a full name. A value with a
 * port means that port. Matched loosely, also with anything around the name: users, and other hosts (Envoy makes a list
 * of several `host` headers); and with escapes: an application that reads hosts as parts of URLs decodes them, and
 * `%61` may be any letter of any name.
 */
export function host(value: string, reading: Reading): What {
  const pattern = parsePattern(value);
  switch (pattern.kind) {
    case 'any':
      return ALWAYS;
    case 'prefix':
      if (reading === 'narrow') return authority(stringMatcher(pattern, true));
      return authority(regexMatcher(`(?is)((.*[@,])?${escapeRegex(pattern.text)}|.*%).*`));
    case 'suffix':
    case 'exact': {
      const [, name = '', port = ''] = /^(.*?)(:\d+)?$/s.exec(pattern.text) ?? [];
      const start = pattern.kind === 'suffix' ? '.*' : '';
      const text = escapeRegex(name);
      if (reading === 'narrow') return authority(regexMatcher(`(?is)${start}${text}\\.?${port || '(:[0-9]*)?'}`));
      const end = port === '' ? '([:,].*)?' : `${port}(,.*)?`;
      return authority(regexMatcher(`(?is)${start || '(.*[@,])?'}${text}\\.*${end}|.*%.*`));
    }
  }
}

function authority(stringMatch: StringMatcher): What {
  return leaf({ header: { name: ':authority', stringMatch } });
}

/**
 * Methods are case-sensitive (RFC 9110, section 9.1). Not all applications respect that, so the loose match ignores
 * case.
 */
export function method(value: string, reading: Reading): What {
  const pattern = parsePattern(value);
  if (pattern.kind === 'any') return ALWAYS;
  return leaf({ header: { name: ':method', stringMatch: stringMatcher(pattern, reading === 'wide') } });
}

/**
 * The path without query and fragment, after the connection manager has normalized it. Many applications ignore
 * parameters of segments. The loose match does too (`/a;x/b`, `/;/a/b`), and a `..` segment with parameters may lead to
 * any path (`/public/..;x/admin`). The strict match excludes what parameters may hide: a `..` segment after a prefix,
 * and anything before a suffix (`/admin;.png`).
 */
export function path(value: string, reading: Reading): What {
  if (isPathTemplate(value)) return templatePath(value, reading);
  const pattern = parsePattern(value);
  if (pattern.kind === 'any') return ALWAYS;
  const plain = hasPath(stringMatcher(pattern));
  if (reading === 'narrow') {
    if (pattern.kind === 'exact') return plain;
    return allOf([plain, not(hasPath({ contains: pattern.kind === 'prefix' ? STEP_UP : ';' }))]);
  }
  const segments = pattern.text.split('/').map(escapeRegex).join(BETWEEN_SEGMENTS);
  const before = pattern.kind === 'suffix' ? '.*' : '';
  const after = pattern.kind === 'prefix' ? '.*' : PARAMETERS;
  return anyOf([plain, hasPath(regexMatcher(`(?s)${before}${segments}${after}`)), hasPath({ contains: STEP_UP })]);
}

/**
 * A path with `{*}`, which is one segment, or `{**}`, which is any number of them. In a strict match, a segment must
 * not be one that an application may ignore: only parameters, or a dot with parameters.
 */
function templatePath(value: string, reading: Reading): What {
  const one = reading === 'narrow' ? '[^/;][^/]*' : '[^/]+';
  const segments = value.split('/').map((segment) => {
    if (segment === '{*}') return one;
    return segment === '{**}' ? '.*' : escapeRegex(segment);
  });
  const stepsUp = hasPath({ contains: STEP_UP });
  const plain = hasPath(regexMatcher(`(?s)${segments.join('/')}`));
  if (reading === 'narrow') return allOf([plain, not(stepsUp), not(hasPath({ contains: '/.;' }))]);
  return anyOf([plain, hasPath(regexMatcher(`(?s)${segments.join(BETWEEN_SEGMENTS)}${PARAMETERS}`)), stepsUp]);
}

function hasPath(matcher: StringMatcher): What {
  return leaf<PermissionLeaf>({ urlPath: { path: matcher } });
}

/** Remains if its dots were escaped (`%2e%2e;`), which are decoded after `..` segments have been resolved. */
const STEP_UP = '/..;';
const PARAMETERS = '(;[^/]*)?';
const BETWEEN_SEGMENTS = `${PARAMETERS}/(;[^/]*/)*`;

/** The connection's port: a workload's own port at sidecars, the listener's at gateways. */
export function destinationPort(value: string, reading: Reading): What {
  const port = Number(value);
  return Number.isInteger(port) && port >= 1 && port <= 65_535 ? leaf({ destinationPort: port }) : unclear(reading);
}

export function destinationIp(value: string, reading: Reading): What {
  const range = cidrRange(value);
  return range === undefined ? unclear(reading) : leaf({ destinationIp: range });
}

/** The server name in the client's TLS handshake, case-insensitive: Envoy has it in lower case. */
export function serverName(value: string): What {
  const pattern = parsePattern(value);
  return leaf({ requestedServerName: pattern.kind === 'any' ? regexMatcher('(?s).+') : stringMatcher(pattern, true) });
}

/** The address at the other end of the connection, whatever headers contain. */
export function peerAddress(value: string, reading: Reading): Who {
  const range = cidrRange(value);
  return range === undefined ? unclear(reading) : leaf({ directRemoteIp: range });
}

/** The client's address according to the connection manager: from `x-forwarded-for`, if its senders are trusted. */
export function clientAddress(value: string, reading: Reading): Who {
  const range = cidrRange(value);
  return range === undefined ? unclear(reading) : leaf({ remoteIp: range });
}
