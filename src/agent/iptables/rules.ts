/**
 * The packet filter rules of a redirection, as plain data. Order matters: the first matching rule decides.
 *
 *   in    PREROUTING ─▶ MESH_INBOUND ─▶ MESH_IN_REDIRECT (nat) or MESH_TPROXY / MESH_DIVERT (mangle)
 *   out   OUTPUT ─▶ MESH_OUTPUT ─▶ MESH_REDIRECT, or MESH_IN_REDIRECT where the proxy calls its own workload
 *   DNS   OUTPUT ─▶ MESH_DNS (raw: conntrack zone; nat: to the port of the agent's or Envoy's DNS server)
 */
import { isIPv6 } from 'node:net';
import { dnsRawRules, dnsRules, hasDns, ownDnsRules } from './dns-rules.ts';
import {
  DIVERT,
  DNS,
  FAMILIES,
  IN_REDIRECT,
  INBOUND,
  JUMP_DNS,
  JUMP_INBOUND,
  JUMP_OUTPUT,
  OUTPUT,
  REDIRECT,
  TPROXY,
} from './footprint.ts';
import { proxyOwners } from './owners.ts';
import type { Family, Included, Interception, Redirection, TableRules } from './types.ts';

/** Ports of the agent and the proxy: merged metrics, readiness, the proxy's metrics. */
const OWN_PORTS: readonly number[] = [15020, 15021, 15090];
/** The operator's access: not among all inbound ports, only redirected when listed. */
const SSH_PORT = 22;

/** The rules of one address family, by table. */
export function redirectionRules(family: Family, wanted: Redirection): readonly TableRules[] {
  const { interception } = wanted;
  const tables = [natRules(family, wanted)];
  if (interception.mode === 'TPROXY' && takesInbound(wanted)) tables.push(mangleRules(family, wanted, interception));
  if (hasDns(family, wanted)) tables.push(dnsRawRules(family, wanted));
  return tables;
}

function takesInbound({ inboundPorts }: Redirection): boolean {
  return inboundPorts === '*' || inboundPorts.length > 0;
}

function natRules(family: Family, wanted: Redirection): TableRules {
  const { interception, proxyPort, inboundPort, virtualInterfaces } = wanted;
  const dns = dnsRules(family, wanted);
  const inbound = [
    ...virtualInterfaces.flatMap((name) => virtualInterfaceRules(family, name, wanted)),
    ...(interception.mode === 'REDIRECT' ? inboundRules(wanted, [`-j ${IN_REDIRECT}`]) : []),
  ];
  return {
    table: 'nat',
    chains: [
      { name: REDIRECT, rules: [`-p tcp -j REDIRECT --to-ports ${proxyPort}`] },
      { name: IN_REDIRECT, rules: [`-p tcp -j REDIRECT --to-ports ${inboundPort}`] },
      ...(inbound.length > 0 ? [{ name: INBOUND, rules: inbound }] : []),
      { name: OUTPUT, rules: outputRules(family, wanted) },
      ...(dns.length > 0 ? [{ name: DNS, rules: dns }] : []),
    ],
    jumps: [
      ...(inbound.length > 0 ? [JUMP_INBOUND] : []),
      JUMP_OUTPUT,
      ...(dns.length > 0 ? (wanted.dns?.protocols ?? []).map((protocol) => JUMP_DNS[protocol]) : []),
    ],
  };
}

/**
 * Rules for inbound traffic. `capture` has the last parts of rules that redirect a connection, after a port match if
 * there is one.
 */
function inboundRules(wanted: Redirection, capture: readonly string[]): readonly string[] {
  const { inboundPorts, tunnelPort, inboundPortsExcluded } = wanted;
  if (!takesInbound(wanted)) return [];
  const tunnel = `-p tcp --dport ${tunnelPort} -j RETURN`;
  if (inboundPorts !== '*') {
    return [tunnel, ...inboundPorts.flatMap((port) => capture.map((end) => `-p tcp --dport ${port} ${end}`))];
  }
  const excluded = [...new Set([SSH_PORT, ...OWN_PORTS, ...inboundPortsExcluded])];
  return [
    tunnel,
    ...excluded.map((port) => `-p tcp --dport ${port} -j RETURN`),
    ...capture.map((end) => `-p tcp ${end}`),
  ];
}

/** Rules for traffic that programs of this host send. */
function outputRules(family: Family, wanted: Redirection): readonly string[] {
  const { loopback, inboundSource } = FAMILIES[family];
  const owners = proxyOwners(wanted);
  return [
    ...ownDnsRules(family, wanted),
    // The proxy forwards an inbound connection to the application from a special source address, so that it is not
    // redirected again.
    `-s ${inboundSource} -o lo -j RETURN`,
    // An application that calls its own service: the proxy sends it back here, to the inbound side, which enforces the
    // policies.
    ...owners.map((owner) => `! -d ${loopback} -o lo -p tcp ${owner} -j ${IN_REDIRECT}`),
    // All other traffic of the proxy is outbound, or goes to the application on localhost.
    ...owners.map((owner) => `${owner} -j RETURN`),
    ...loopbackRules(family, wanted),
    // Applications of one workload talk to each other through a local address.
    '-o lo -j RETURN',
    ...outboundRules(family, wanted, ''),
  ];
}

/** Listed loopback ranges are redirected, except localhost itself, through which applications talk to each other. */
function loopbackRules(family: Family, wanted: Redirection): readonly string[] {
  const { loopback } = FAMILIES[family];
  const cidrs = ofFamily(family, wanted.cidrs);
  const named = cidrs === '*' ? [] : cidrs.filter((cidr) => cidr.startsWith('127.') && cidr !== loopback);
  if (named.length === 0) return [];
  return [
    ...wanted.outboundPortsExcluded.map((port) => `-p tcp --dport ${port} -j RETURN`),
    `-d ${loopback} -j RETURN`,
    ...named.map((cidr) => `-d ${cidr} -j ${REDIRECT}`),
  ];
}

/**
 * Rules for redirected destinations.
 *
 * @param from a match that ends in a space, or ''
 */
function outboundRules(family: Family, wanted: Redirection, from: string): readonly string[] {
  const cidrs = ofFamily(family, wanted.cidrs);
  const excluded = cidrs === '*' ? wanted.cidrsExcluded.filter((cidr) => isIPv6Cidr(cidr) === (family === 'ipv6')) : [];
  const included = cidrs === '*' ? [''] : cidrs.map((cidr) => `-d ${cidr} `);
  return [
    ...wanted.outboundPortsExcluded.map((port) => `${from}-p tcp --dport ${port} -j RETURN`),
    ...excluded.map((cidr) => `${from}-d ${cidr} -j RETURN`),
    ...wanted.outboundPorts.map((port) => `${from}-p tcp --dport ${port} -j ${REDIRECT}`),
    ...included.map((destination) => `${from}${destination}-j ${REDIRECT}`),
  ];
}

/** Traffic of a virtual machine arrives from its interface, but is sent by an application here. */
function virtualInterfaceRules(family: Family, name: string, wanted: Redirection): readonly string[] {
  return [...outboundRules(family, wanted, `-i ${name} `), `-i ${name} -j RETURN`];
}

function mangleRules(
  family: Family,
  wanted: Redirection,
  { mark }: Interception & { readonly mode: 'TPROXY' },
): TableRules {
  const { loopback, inboundSource } = FAMILIES[family];
  return {
    table: 'mangle',
    chains: [
      { name: DIVERT, rules: [`-j MARK --set-mark ${mark}`, '-j ACCEPT'] },
      {
        name: TPROXY,
        rules: [`! -d ${loopback} -p tcp -j TPROXY --tproxy-mark ${mark}/0xffffffff --on-port ${wanted.inboundPort}`],
      },
      {
        name: INBOUND,
        rules: [
          ...wanted.virtualInterfaces.map((name) => `-i ${name} -j RETURN`),
          // The proxy uses the client's address as source: responses of the application must reach the proxy.
          `-m mark --mark ${mark} -j CONNMARK --save-mark`,
          `-m mark --mark ${mark} -j RETURN`,
          `-s ${inboundSource} -i lo -j RETURN`,
          '-i lo -j RETURN',
          ...inboundRules(wanted, [`-m conntrack --ctstate RELATED,ESTABLISHED -j ${DIVERT}`, `-j ${TPROXY}`]),
        ],
      },
      { name: OUTPUT, rules: [`-m connmark --mark ${mark} -j CONNMARK --restore-mark`] },
    ],
    jumps: [JUMP_INBOUND, JUMP_OUTPUT],
  };
}

function ofFamily(family: Family, cidrs: Included<string>): Included<string> {
  return cidrs === '*' ? cidrs : cidrs.filter((cidr) => isIPv6Cidr(cidr) === (family === 'ipv6'));
}

function isIPv6Cidr(cidr: string): boolean {
  return isIPv6(cidr.split('/')[0] ?? '');
}
