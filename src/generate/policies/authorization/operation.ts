/** What is asked for, and from where: hosts, methods, paths, ports and addresses. */
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
import { escapeRegex, patternOf, regexMatcher, type StringMatcher, stringMatcher } from './text.ts';

type What = Condition<PermissionLeaf>;
type Who = Condition<PrincipalLeaf>;

/**
 * How a value is read where one thing can be written in several ways. A rule that lets in takes it narrowly, a rule
 * that keeps out takes it widely, so that in doubt a request is refused.
 */
export type Reading = 'narrow' | 'wide';

/** What has no meaning (admission refuses it): it lets nobody in, and keeps everybody out. */
export function unclear(reading: Reading): typeof ALWAYS | typeof NEVER {
  return reading === 'wide' ? ALWAYS : NEVER;
}

/**
 * Hosts, whatever the case of their letters, with a port behind or without one, and with the dot that ends a full name
 * or without it. A value that names a port means that port. Widely read, also with whatever else stands around the
 * name: users, and other hosts (Envoy makes a list of several `host` headers); and with escapes: an application that
 * takes hosts for parts of URLs decodes them, and `%61` may be any letter of any name.
 */
export function host(value: string, reading: Reading): What {
  const pattern = patternOf(value);
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
 * Methods are told apart by case (RFC 9110, section 9.1). Not all applications do, and so it is not when widely read.
 */
export function method(value: string, reading: Reading): What {
  const pattern = patternOf(value);
  if (pattern.kind === 'any') return ALWAYS;
  return leaf({ header: { name: ':method', stringMatch: stringMatcher(pattern, reading === 'wide') } });
}

/**
 * The path without query and fragment, after the connection manager has normalised it. Many applications leave out
 * parameters of segments. Widely read, so does this (`/a;x/b`, `/;/a/b`), and a step up that has parameters may lead
 * anywhere (`/public/..;x/admin`). Narrowly read, what parameters may hide is not matched: a step up behind a
 * beginning, anything before an end (`/admin;.png`).
 */
export function path(value: string, reading: Reading): What {
  const pattern = patternOf(value);
  if (pattern.kind === 'any') return ALWAYS;
  const has = (matcher: StringMatcher) => leaf<PermissionLeaf>({ urlPath: { path: matcher } });
  const plain = has(stringMatcher(pattern));
  if (reading === 'narrow') {
    if (pattern.kind === 'exact') return plain;
    return allOf([plain, not(has({ contains: pattern.kind === 'prefix' ? STEP_UP : ';' }))]);
  }
  const segments = pattern.text.split('/').map(escapeRegex).join(`${PARAMETERS}/(;[^/]*/)*`);
  const before = pattern.kind === 'suffix' ? '.*' : '';
  const after = pattern.kind === 'prefix' ? '.*' : PARAMETERS;
  return anyOf([plain, has(regexMatcher(`(?s)${before}${segments}${after}`)), has({ contains: STEP_UP })]);
}

/** Is left where its dots were escaped (`%2e%2e;`): they are unescaped after steps up have been taken. */
const STEP_UP = '/..;';
const PARAMETERS = '(;[^/]*)?';

/** The port that the connection came to: a workload's own port at sidecars, the listener's at gateways. */
export function destinationPort(value: string, reading: Reading): What {
  const port = Number(value);
  return Number.isInteger(port) && port >= 1 && port <= 65_535 ? leaf({ destinationPort: port }) : unclear(reading);
}

export function destinationIp(value: string, reading: Reading): What {
  const range = cidrRange(value);
  return range === undefined ? unclear(reading) : leaf({ destinationIp: range });
}

/** The server name that the client's TLS asks for, whatever the case of its letters: Envoy knows it in small ones. */
export function serverName(value: string): What {
  const pattern = patternOf(value);
  return leaf({ requestedServerName: pattern.kind === 'any' ? regexMatcher('(?s).+') : stringMatcher(pattern, true) });
}

/** The address at the other end of the connection, whatever headers say. */
export function peerAddress(value: string, reading: Reading): Who {
  const range = cidrRange(value);
  return range === undefined ? unclear(reading) : leaf({ directRemoteIp: range });
}

/**
 * The address of the client as the connection manager believes it: from `x-forwarded-for`, as far as its senders are
 * trusted.
 */
export function clientAddress(value: string, reading: Reading): Who {
  const range = cidrRange(value);
  return range === undefined ? unclear(reading) : leaf({ remoteIp: range });
}
