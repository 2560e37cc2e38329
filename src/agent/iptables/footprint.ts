/**
 * Everything that redirection may leave behind, by table. Rules are built from it and cleaning removes it, so that both
 * always match. Built-in chains only get the jumps listed here, in the notation of iptables-save; everything else is in
 * chains of meshd.
 */
import type { Family, TableName } from './types.ts';

export const INBOUND = 'MESH_INBOUND';
export const IN_REDIRECT = 'MESH_IN_REDIRECT';
export const REDIRECT = 'MESH_REDIRECT';
export const OUTPUT = 'MESH_OUTPUT';
export const DIVERT = 'MESH_DIVERT';
export const TPROXY = 'MESH_TPROXY';
export const DNS = 'MESH_DNS';
export const DNS_ANSWER = 'MESH_DNS_ANSWER';

export const JUMP_INBOUND = `PREROUTING -p tcp -j ${INBOUND}`;
export const JUMP_OUTPUT = `OUTPUT -p tcp -j ${OUTPUT}`;
export const JUMP_DNS = {
  udp: `OUTPUT -p udp -m udp --dport 53 -j ${DNS}`,
  tcp: `OUTPUT -p tcp -m tcp --dport 53 -j ${DNS}`,
} as const;
/** Answers to captured queries: they are sent through loopback. */
export const JUMP_DNS_ANSWER = `OUTPUT -o lo -p udp -j ${DNS_ANSWER}`;

interface Footprint {
  readonly chains: readonly string[];
  readonly jumps: readonly string[];
}

export const FOOTPRINT: Readonly<Record<TableName, Footprint>> = {
  nat: {
    chains: [REDIRECT, IN_REDIRECT, INBOUND, OUTPUT, DNS],
    jumps: [JUMP_INBOUND, JUMP_OUTPUT, JUMP_DNS.udp, JUMP_DNS.tcp],
  },
  mangle: { chains: [DIVERT, TPROXY, INBOUND, OUTPUT], jumps: [JUMP_INBOUND, JUMP_OUTPUT] },
  raw: { chains: [DNS, DNS_ANSWER], jumps: [JUMP_DNS.udp, JUMP_DNS_ANSWER] },
};

export const TABLES: readonly TableName[] = ['nat', 'mangle', 'raw'];

/**
 * How a jump is added: those of DNS at the beginning of the built-in chain. Container engines have rules there that
 * rewrite queries to their own name server, and the first rewrite of a packet is the only one.
 */
export function addJump(jump: string): string {
  return jump.endsWith(` -j ${DNS}`) ? `-I ${jump}` : `-A ${jump}`;
}

interface FamilyFacts {
  /** The option of `ip`. */
  readonly ip: '-4' | '-6';
  readonly save: string;
  readonly restore: string;
  readonly iptables: string;
  readonly loopback: string;
  /** Source address of the proxy's connections to the application: these are not redirected. */
  readonly inboundSource: string;
}

export const FAMILIES: Readonly<Record<Family, FamilyFacts>> = {
  ipv4: {
    ip: '-4',
    save: 'iptables-save',
    restore: 'iptables-restore',
    iptables: 'iptables',
    loopback: '127.0.0.1/32',
    inboundSource: '127.0.0.6/32',
  },
  ipv6: {
    ip: '-6',
    save: 'ip6tables-save',
    restore: 'ip6tables-restore',
    iptables: 'ip6tables',
    loopback: '::1/128',
    inboundSource: '::6/128',
  },
};

/**
 * Conntrack zone of captured queries. Without a zone of its own, the entry of a captured query, which rewrites its
 * destination, would also apply to a query that the agent sends from the same port to the same name server: its own
 * query would be redirected to itself.
 */
export const DNS_ZONE = 15053;

/**
 * Preference of meshd's routing rule and metric of its route: they identify both among others with the same mark or
 * table.
 */
export const ROUTING_MARKER = 15006;
