/** What is asked for, and from where: hosts, methods, paths, ports and addresses. */
import { cidrRange } from '../../listeners/cidr.ts';
import { ALWAYS, anyOf, type Condition, leaf, NEVER, type PermissionLeaf, type PrincipalLeaf } from './condition.ts';
import { escapeRegex, patternOf, regexMatcher, type StringMatcher, stringMatcher } from './text.ts';

type What = Condition<PermissionLeaf>;
type Who = Condition<PrincipalLeaf>;

/**
 * How a value is read where one thing can be written in several ways. A rule that lets in takes it narrowly, a rule that keeps out
 * takes it widely, so that in doubt a request is refused.
 */
export type Reading = 'narrow' | 'wide';

/** What has no meaning (admission refuses it): it lets nobody in, and keeps everybody out. */
export function unclear(reading: Reading): typeof ALWAYS | typeof NEVER {
  return reading === 'wide' ? ALWAYS : NEVER;
}

/**
 * Hosts, whatever the case of their letters, with a port behind or without one, and with the dot that ends a full name or without
 * it. A value that names a port means that port. Widely read, also with whatever else stands around the name.
 */
export function host(value: string, reading: Reading): What {
  const pattern = patternOf(value);
  const authority = (matcher: StringMatcher) => leaf({ header: { name: ':authority', stringMatch: matcher } });
  const icase = (kind: 'exact' | 'prefix', text: string) => authority(stringMatcher({ kind, text }, true));
  switch (pattern.kind) {
    case 'any':
      return ALWAYS;
    case 'prefix': {
      const plain = icase('prefix', pattern.text);
      return reading === 'narrow'
        ? plain
        : anyOf([plain, authority(regexMatcher(`(?is).*@${escapeRegex(pattern.text)}.*`))]);
    }
    case 'suffix':
    case 'exact': {
      const { text } = pattern;
      const port = PORT_AT_END.test(text);
      const [name, end] = port ? [text.replace(PORT_AT_END, ''), text.slice(text.lastIndexOf(':'))] : [text, ''];
      const before = pattern.kind === 'suffix' ? '.*' : reading === 'wide' ? '(.*@)?' : '';
      const after = end !== '' ? escapeRegex(end) : reading === 'wide' ? '(:.*)?' : '(:[0-9]*)?';
      return authority(regexMatcher(`(?is)${before}${escapeRegex(name)}\\.?${after}`));
    }
  }
}

const PORT_AT_END = /:\d+$/;

/** Methods are told apart by case (RFC 9110, section 9.1). */
export function method(value: string): What {
  const pattern = patternOf(value);
  if (pattern.kind === 'any') return ALWAYS;
  return leaf({ header: { name: ':method', stringMatch: stringMatcher(pattern) } });
}

/** The path without query and fragment, after the connection manager has normalised it. */
export function path(value: string): What {
  const pattern = patternOf(value);
  return pattern.kind === 'any' ? ALWAYS : leaf({ urlPath: { path: stringMatcher(pattern) } });
}

/** The port that the connection came to: a workload's own port at sidecars, the listener's at gateways. */
export function destinationPort(value: string, reading: Reading): What {
  const port = Number(value);
  return Number.isInteger(port) && port >= 1 && port <= 65_535 ? leaf({ destinationPort: port }) : unclear(reading);
}

export function destinationIp(value: string, reading: Reading): What {
  const range = cidrRange(value);
  return range === undefined ? unclear(reading) : leaf({ destinationIp: range });
}

/** The server name that the client's TLS asks for. */
export function serverName(value: string): What {
  const pattern = patternOf(value);
  return leaf({ requestedServerName: pattern.kind === 'any' ? regexMatcher('(?s).+') : stringMatcher(pattern) });
}

/** The address at the other end of the connection, whatever headers say. */
export function peerAddress(value: string, reading: Reading): Who {
  const range = cidrRange(value);
  return range === undefined ? unclear(reading) : leaf({ directRemoteIp: range });
}

/** The address of the client as the connection manager believes it: from `x-forwarded-for`, as far as its senders are trusted. */
export function clientAddress(value: string, reading: Reading): Who {
  const range = cidrRange(value);
  return range === undefined ? unclear(reading) : leaf({ remoteIp: range });
}
