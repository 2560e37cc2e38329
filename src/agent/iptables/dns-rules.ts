/**
 * The rules of captured DNS. Only queries to the machine's name servers are captured, as in Istio: a program that asks
 * another server on purpose gets its answer, and a resolver on this machine, such as systemd-resolved, still reaches
 * the servers to which it forwards.
 *
 *   application ─▶ name server:53 ─▶ (nat, conntrack zone) ─▶ agent ─▶ name server:53
 */
import { isIPv6 } from 'node:net';
import { DNS, DNS_ANSWER, DNS_ZONE, JUMP_DNS, JUMP_DNS_ANSWER } from './footprint.ts';
import { proxyOwners } from './owners.ts';
import type { Family, Redirection, TableRules } from './types.ts';

/** Whether there is a captured name server of this family. */
export function hasDns(family: Family, wanted: Redirection): boolean {
  return serversOf(family, wanted).length > 0;
}

/** Rules of `MESH_DNS` in nat, which gets the packets to port 53; empty when nothing is captured. */
export function dnsRules(family: Family, wanted: Redirection): readonly string[] {
  const { dns } = wanted;
  if (dns === undefined || !hasDns(family, wanted)) return [];
  return [
    // The agent's and Envoy's own queries to the name servers.
    ...proxyOwners(wanted).map((owner) => `${owner} -j RETURN`),
    ...serversOf(family, wanted).flatMap((server) =>
      dns.protocols.map((protocol) => `-d ${server} -p ${protocol} -j REDIRECT --to-ports ${dns.port}`),
    ),
  ];
}

/**
 * Rules of `MESH_OUTPUT` in nat: the agent asks a name server on this machine over TCP. The proxy's other calls to
 * local addresses are calls to its own workload, and go through the inbound side.
 */
export function ownDnsRules(family: Family, wanted: Redirection): readonly string[] {
  if (wanted.dns?.protocols.includes('tcp') !== true) return [];
  return serversOf(family, wanted).map((server) => `-d ${server} -o lo -p tcp -m tcp --dport 53 -j RETURN`);
}

/**
 * The rules in raw, which precede conntrack: captured queries over UDP and their answers are in a zone of their own.
 * Over TCP the first packet of a connection always starts a new conntrack entry.
 */
export function dnsRawRules(family: Family, wanted: Redirection): TableRules {
  const zone = `-j CT --zone ${DNS_ZONE}`;
  return {
    table: 'raw',
    chains: [
      {
        name: DNS,
        rules: [
          ...proxyOwners(wanted).map((owner) => `${owner} -j RETURN`),
          ...serversOf(family, wanted).map((server) => `-d ${server} ${zone}`),
        ],
      },
      { name: DNS_ANSWER, rules: [`-p udp -m udp --sport ${wanted.dns?.port} ${zone}`] },
    ],
    jumps: [JUMP_DNS.udp, JUMP_DNS_ANSWER],
  };
}

function serversOf(family: Family, { dns }: Redirection): readonly string[] {
  const bits = family === 'ipv6' ? 128 : 32;
  return (dns?.servers ?? [])
    .filter((server) => isIPv6(server) === (family === 'ipv6'))
    .map((server) => `${server}/${bits}`);
}
