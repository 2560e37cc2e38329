/** Reads the fields of an instance that its registration chooses freely: address, labels, protocol, numbers. */
import { BlockList, isIP } from 'node:net';
import { isDnsSubdomain } from '../../core/dns-names.ts';

/** Addresses that no host has: unspecified and multicast ones (RFC 6890, RFC 5771, RFC 4291). */
const NO_HOST = new BlockList();
NO_HOST.addSubnet('0.0.0.0', 8, 'ipv4');
NO_HOST.addSubnet('224.0.0.0', 4, 'ipv4');
NO_HOST.addAddress('::', 'ipv6');
NO_HOST.addSubnet('ff00::', 8, 'ipv6');

const MAX_LABELS = 64;
const LABEL_NAME = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
/** Protocols of ports, as the mesh names them. */
const PROTOCOLS: ReadonlySet<string> = new Set([
  'GRPC',
  'GRPC-WEB',
  'HTTP',
  'HTTP2',
  'HTTPS',
  'MONGO',
  'MYSQL',
  'REDIS',
  'TCP',
  'TLS',
  'UDP',
]);

/** An IP address or a host name as an endpoint has it; undefined for anything else, such as a socket's path. */
export function endpointAddress(written: string): string | undefined {
  const address = written.toLowerCase();
  const family = isIP(address);
  if (family !== 0) {
    if (address.includes('%')) return undefined;
    return NO_HOST.check(address, family === 4 ? 'ipv4' : 'ipv6') ? undefined : address;
  }
  const host = address.endsWith('.') ? address.slice(0, -1) : address;
  // Digits and dots alone are a mistyped address.
  return isDnsSubdomain(host) && !/^[\d.]+$/.test(host) ? host : undefined;
}

/** The protocol of the metadata, in upper case; TCP without one, or for one that is not known. */
export function protocolIn(written: string | undefined): { readonly protocol: string; readonly isKnown: boolean } {
  if (written === undefined || written === '') return { protocol: 'TCP', isKnown: true };
  const protocol = written.toUpperCase();
  return PROTOCOLS.has(protocol) ? { protocol, isKnown: true } : { protocol: 'TCP', isKnown: false };
}

/** A number from 1 to `max`; undefined for anything else. */
export function numberIn(written: string | undefined, max: number): number | undefined {
  if (written === undefined || !/^\d{1,9}$/.test(written)) return undefined;
  const number = Number(written);
  return number >= 1 && number <= max ? number : undefined;
}

/**
 * Tags of the form `key|value` are labels, as in Istio 1.7; others are not. The first tag of a key is used.
 *
 * @param onInvalid called for tags of this form that are no labels
 */
export function labelsOf(tags: readonly string[], onInvalid: (tag: string) => void): ReadonlyMap<string, string> {
  const labels = new Map<string, string>();
  for (const tag of tags) {
    const [key = '', value] = tag.split('|');
    if (value === undefined || labels.has(key)) continue;
    if (labels.size < MAX_LABELS && isLabelKey(key) && (value === '' || LABEL_NAME.test(value))) labels.set(key, value);
    else onInvalid(tag);
  }
  return labels;
}

function isLabelKey(key: string): boolean {
  const slash = key.indexOf('/');
  return LABEL_NAME.test(key.slice(slash + 1)) && (slash < 0 || isDnsSubdomain(key.slice(0, slash)));
}
