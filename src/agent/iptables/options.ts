/**
 * Converts flags and variables to a `Redirection`. All values are checked here: they become parts of rules unchanged.
 */
import { isIP, isIPv6 } from 'node:net';
import { CtlError } from '../../core/errors.ts';
import { type DnsSettings, ineffectiveDnsSettings, planDnsCapture } from './dns-options.ts';
import { FAMILIES } from './footprint.ts';
import type { Included, Interception, Redirection } from './types.ts';

/** The settings of the command as strings; empty for settings that are not given. */
export interface RedirectionSettings extends DnsSettings {
  readonly proxyPort: string;
  readonly inboundCapturePort: string;
  readonly inboundTunnelPort: string;
  readonly meshInboundInterceptionMode: string;
  readonly meshInboundPorts: string;
  readonly meshInboundTproxyMark: string;
  readonly meshInboundTproxyRouteTable: string;
  readonly meshLocalExcludePorts: string;
  readonly meshLocalOutboundPortsExclude: string;
  readonly meshOutboundPorts: string;
  readonly meshServiceCidr: string;
  readonly meshServiceExcludeCidr: string;
  readonly orchVirtInterfaces: string;
  readonly proxyUid: string;
  readonly proxyGid: string;
}

/** The usual id of the proxy's user, on a host without a user of that name. */
const DEFAULT_PROXY_ID = '1337';
/** The same as in Istio. */
const DEFAULT_MARK = '1337';
const DEFAULT_ROUTE_TABLE = '133';
const MAX_ID = 0xffff_fffe;

/** A user of this host, as in /etc/passwd. */
export interface ProxyUser {
  readonly uid: string;
  readonly gid: string;
}

/** Properties of the host that settings depend on. */
export interface HostFacts {
  /** The user of PROXY_USER, if the host has it: the default of uid and gid. */
  readonly proxyUser: ProxyUser | undefined;
  /** The name servers of resolv.conf. */
  readonly nameservers: readonly string[];
}

/** Checks the settings. Throws CtlError invalid_argument that names the flag. */
export function redirectionOf(settings: RedirectionSettings, { proxyUser, nameservers }: HostFacts): Redirection {
  const uid = settings.proxyUid || (proxyUser?.uid ?? DEFAULT_PROXY_ID);
  // A user implies its group.
  const gid = settings.proxyGid || (settings.proxyUid === '' ? (proxyUser?.gid ?? uid) : uid);
  return {
    interception: parseInterception(settings),
    proxyPort: portOf('proxy-port', settings.proxyPort),
    inboundPort: portOf('inbound-capture-port', settings.inboundCapturePort),
    tunnelPort: portOf('inbound-tunnel-port', settings.inboundTunnelPort),
    inboundPorts: parseIncluded('mesh-inbound-ports', settings.meshInboundPorts, portOf),
    inboundPortsExcluded: parseList('mesh-local-exclude-ports', settings.meshLocalExcludePorts, portOf),
    outboundPorts: parseList('mesh-outbound-ports', settings.meshOutboundPorts, portOf),
    outboundPortsExcluded: parseList(
      'mesh-local-outbound-ports-exclude',
      settings.meshLocalOutboundPortsExclude,
      portOf,
    ),
    cidrs: parseIncluded('mesh-service-cidr', settings.meshServiceCidr, parseCidr),
    cidrsExcluded: parseList('mesh-service-exclude-cidr', settings.meshServiceExcludeCidr, parseCidr),
    virtualInterfaces: parseList('orch-virt-interfaces', settings.orchVirtInterfaces, parseInterface),
    proxyUids: parseList('proxy-uid', uid, parseId),
    proxyGids: parseList('proxy-gid', gid, parseId),
    dns: planDnsCapture(settings, nameservers),
  };
}

/** Settings without effect because of other settings, one sentence each. */
export function ineffectiveSettings(
  settings: RedirectionSettings,
  wanted: Redirection,
  nameservers: readonly string[],
): readonly string[] {
  const { meshServiceExcludeCidr, meshLocalExcludePorts, meshInboundTproxyMark, meshInboundTproxyRouteTable } =
    settings;
  const sentences: string[] = [];
  if (wanted.cidrs !== '*' && wanted.cidrsExcluded.length > 0) {
    sentences.push(
      "--mesh-service-exclude-cidr applies only when all outbound is redirected (--mesh-service-cidr '*'): " +
        `${meshServiceExcludeCidr} is not excluded`,
    );
  }
  if (wanted.inboundPorts !== '*' && wanted.inboundPortsExcluded.length > 0) {
    sentences.push(
      "--mesh-local-exclude-ports applies only when all inbound is redirected (--mesh-inbound-ports '*'): " +
        `${meshLocalExcludePorts} is not excluded`,
    );
  }
  const localhost = wanted.cidrs === '*' ? [] : wanted.cidrs.filter(isLocalhost);
  if (localhost.length > 0) sentences.push(`--mesh-service-cidr: ${localhost.join(', ')} is never redirected`);
  if (wanted.interception.mode !== 'TPROXY' && (meshInboundTproxyMark !== '' || meshInboundTproxyRouteTable !== '')) {
    const flags = '--mesh-inbound-tproxy-mark and --mesh-inbound-tproxy-route-table';
    sentences.push(`${flags} apply only with --mesh-inbound-interception-mode TPROXY`);
  }
  return [...sentences, ...ineffectiveDnsSettings(settings, wanted, nameservers)];
}

/** Whether a range is localhost, through which applications of one machine talk to each other. */
export function isLocalhost(cidr: string): boolean {
  return Object.values(FAMILIES).some(({ loopback }) => loopback === cidr);
}

function parseInterception(settings: RedirectionSettings): Interception {
  if (settings.meshInboundInterceptionMode !== 'TPROXY') return { mode: 'REDIRECT' };
  const mark = settings.meshInboundTproxyMark || DEFAULT_MARK;
  const routeTable = settings.meshInboundTproxyRouteTable || DEFAULT_ROUTE_TABLE;
  return {
    mode: 'TPROXY',
    mark: parseNumber('mesh-inbound-tproxy-mark', mark, 1, 0xffff_ffff, 'a mark'),
    // 253 to 255 are the kernel's own tables.
    routeTable: parseNumber('mesh-inbound-tproxy-route-table', routeTable, 1, 252, 'the number of a routing table'),
  };
}

type ReadItem<T> = (flag: string, text: string) => T;

function parseList<T>(flag: string, text: string, read: ReadItem<T>): readonly T[] {
  const items = text.split(',').map((item) => item.trim());
  return [...new Set(items.filter((item) => item !== '').map((item) => read(flag, item)))];
}

function parseIncluded<T>(flag: string, text: string, read: ReadItem<T>): Included<T> {
  return text.trim() === '*' ? '*' : parseList(flag, text, read);
}

/** Parses a port. Throws CtlError invalid_argument that names the flag. */
export function portOf(flag: string, text: string): number {
  return parseNumber(flag, text, 1, 65_535, 'a port');
}

function parseId(flag: string, text: string): number {
  return parseNumber(flag, text, 0, MAX_ID, 'a numeric id');
}

function parseCidr(flag: string, text: string): string {
  const [address = '', bits, ...rest] = text.split('/');
  const version = isIP(address);
  // iptables rules do not match zones of addresses.
  const fits = version !== 0 && !address.includes('%') && rest.length === 0;
  if (!fits) throw wrong(flag, text, 'an address range, such as 10.0.0.0/8');
  const most = isIPv6(address) ? 128 : 32;
  if (bits === undefined) return `${address}/${most}`;
  return `${address}/${parseNumber(flag, bits, 0, most, `the number of bits of ${address}`)}`;
}

/** Checks the name of an interface as the kernel does; `+` at the end is a wildcard of iptables. */
function parseInterface(flag: string, text: string): string {
  if (!/^[A-Za-z0-9_.@-]{1,15}\+?$/.test(text) || text.startsWith('-')) throw wrong(flag, text, 'an interface');
  return text;
}

function parseNumber(flag: string, text: string, least: number, most: number, what: string): number {
  const value = /^(\d{1,10}|0x[0-9a-fA-F]{1,8})$/.test(text.trim()) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw wrong(flag, text, `${what} (${least} to ${most})`);
}

function wrong(flag: string, text: string, what: string): CtlError {
  return new CtlError('invalid_argument', `--${flag}: ${JSON.stringify(text.slice(0, 80))} is not ${what}`);
}
