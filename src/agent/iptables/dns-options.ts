/**
 * Converts the variables of captured DNS to a `DnsCapture`. They are variables, not flags, because the agent and Envoy
 * of the same workload need the same values.
 */
import { isIP, isIPv6 } from 'node:net';
import { CtlError, messageOf } from '../../core/errors.ts';
import { isEnabled, type ListenAddress, parseListenAddress } from '../../settings/index.ts';
import type { DnsCapture, Redirection } from './types.ts';

/** The settings of captured DNS as strings; empty for settings that are not given. */
export interface DnsSettings {
  /** DNS_AGENT */
  readonly dnsAgent: string;
  /** MESH_META_DNS_CAPTURE */
  readonly dnsCapture: string;
  /** DNS_ADDR */
  readonly dnsAddress: string;
}

/** Envoy's port for captured DNS. */
const ENVOY_DNS_PORT = 15013;
/** The name server of a resolv.conf that names none, see resolv.conf(5). */
const DEFAULT_SERVER = '127.0.0.1';

/**
 * Which queries are captured and where they go; undefined when none are. Throws CtlError invalid_argument for an
 * address of the agent that redirected packets do not reach.
 *
 * @param nameservers the name servers of resolv.conf
 */
export function planDnsCapture(settings: DnsSettings, nameservers: readonly string[]): DnsCapture | undefined {
  const servers = nameservers.length === 0 ? [DEFAULT_SERVER] : nameservers;
  if (isEnabled(settings.dnsAgent)) {
    const { host, port } = parseDnsAddress(settings.dnsAddress);
    const reached = servers.filter((server) => listensFor(host, server));
    return { port, protocols: ['udp', 'tcp'], servers: reached };
  }
  // Envoy answers over UDP only; TCP queries go to the DNS servers themselves.
  if (isEnabled(settings.dnsCapture)) return { port: ENVOY_DNS_PORT, protocols: ['udp'], servers };
  return undefined;
}

/** Settings of DNS without effect, one sentence each. */
export function ineffectiveDnsSettings(
  settings: DnsSettings,
  { dns }: Redirection,
  nameservers: readonly string[],
): readonly string[] {
  if (dns === undefined) return [];
  const sentences: string[] = [];
  if (isEnabled(settings.dnsAgent) && isEnabled(settings.dnsCapture)) {
    sentences.push('DNS_AGENT and MESH_META_DNS_CAPTURE are both set: DNS queries are redirected to the agent');
  }
  const missed = nameservers.filter((server) => !dns.servers.includes(server));
  if (missed.length > 0) {
    sentences.push(`DNS_ADDR: ${settings.dnsAddress} does not receive queries to ${missed.join(', ')}`);
  }
  return sentences;
}

/** The addresses of `nameserver` lines of a resolv.conf, without the zones of IPv6 addresses. */
export function parseNameservers(resolvConf: string): readonly string[] {
  const found = [...resolvConf.matchAll(/^[ \t]*nameserver[ \t]+([^\s#;%]+)/gm)].map(([, address = '']) => address);
  return [...new Set(found.filter((address) => isIP(address) !== 0))];
}

function parseDnsAddress(text: string): ListenAddress {
  try {
    const address = parseListenAddress(text);
    if (address.port === 0) throw new CtlError('invalid_argument', 'port 0 is not a port for redirected queries');
    const { host } = address;
    const isLoopback = host === undefined ? !text.startsWith('*') : HOSTS.has(host);
    if (isLoopback) return address;
    throw new CtlError('invalid_argument', `redirected queries reach loopback only, not ${host ?? '*'}`);
  } catch (error) {
    throw new CtlError('invalid_argument', `DNS_ADDR: ${JSON.stringify(text.slice(0, 80))}: ${messageOf(error)}`);
  }
}

/**
 * The hosts of loopback, with their families. All addresses (`0.0.0.0`, `::`) are not among them: such a UDP socket
 * sends its answers from the address of the client, not from loopback, and the kernel cannot match them to the query.
 */
const HOSTS: ReadonlyMap<string, readonly (4 | 6)[]> = new Map([
  ['localhost', [4, 6]],
  ['127.0.0.1', [4]],
  ['::1', [6]],
]);

/** The kernel redirects a packet to the loopback address of its own family. */
function listensFor(host: string | undefined, server: string): boolean {
  return host === undefined || HOSTS.get(host)?.includes(isIPv6(server) ? 6 : 4) === true;
}
