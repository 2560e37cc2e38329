/**
 * Network configuration that redirection needs in addition to packet filter rules, set with `ip`: a rule and a route
 * that deliver marked packets to the proxy's transparent socket (https://docs.kernel.org/networking/tproxy.html), and
 * the IPv6 address from which the proxy connects (127.0.0.6 is local by default, ::6 is not).
 */
import { FAMILIES, ROUTING_MARKER } from './footprint.ts';
import type { Family } from './types.ts';

/** A routing rule of meshd: packets with the mark use the table. */
export interface MarkRoute {
  readonly mark: number;
  readonly table: number;
}

/** The rules of meshd in the output of `ip rule show`: `15006: from all fwmark 0x539 lookup 133`. */
export function readMarkRoutes(shown: string): readonly MarkRoute[] {
  const line = new RegExp(`^${ROUTING_MARKER}:.*\\bfwmark (0x[0-9a-f]+|\\d+)(?:/\\S+)? lookup (\\d+)`, 'gm');
  return [...shown.matchAll(line)].map(([, mark = '', table = '']) => ({ mark: Number(mark), table: Number(table) }));
}

/** Arguments of `ip` for the routing rule. */
export function ruleCommand(family: Family, verb: 'add' | 'del', { mark, table }: MarkRoute): readonly string[] {
  const words = ['rule', verb, 'pref', ROUTING_MARKER, 'fwmark', mark, 'lookup', table];
  return [FAMILIES[family].ip, ...words.map(String)];
}

/** Arguments of `ip` for the rule's route: everything in its table is local. */
export function routeCommand(family: Family, verb: 'replace' | 'del', { table }: MarkRoute): readonly string[] {
  const words = ['route', verb, 'local', 'default', 'dev', 'lo', 'table', table, 'metric', ROUTING_MARKER];
  return [FAMILIES[family].ip, ...words.map(String)];
}

/** Arguments of `ip` that add ::6 to this host, or remove it. */
export function inboundSourceAddress(verb: 'replace' | 'del'): readonly string[] {
  return ['-6', 'addr', verb, FAMILIES.ipv6.inboundSource, 'dev', 'lo'];
}
