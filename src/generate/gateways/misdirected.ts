/**
 * Hosts for which other servers of a port require client certificates, and all hosts of other servers if a Gateway is
 * isolated. The TLS server name decides which server a connection belongs to, but the request decides the virtual host:
 * a client with `other.example` in TLS and `private.example` in its request would bypass the verification of its
 * certificate. Such requests receive HTTP 421 (RFC 9110, section 15.5.20), and clients such as browsers, which share
 * connections between hosts, retry on a separate connection.
 */
import type { Memos } from '../../core/memo.ts';
import { hostMatches, isWildcardHost, matchingPatterns } from '../../model/index.ts';
import type { GatewayPlan, ServerPlan } from '../listener-plans/index.ts';

/** Hosts that are only available with the TLS server names of other servers. */
export interface Misdirected {
  /** Without duplicates. */
  readonly hosts: readonly string[];
  /** Whether requests for a host belong to another server, unless the server itself has a more specific name for it. */
  covers(host: string): boolean;
}

const NONE: Misdirected = { hosts: [], covers: () => false };

export function misdirectedHosts(memos: Memos, plan: GatewayPlan, server: ServerPlan): Misdirected {
  const listener = plan.listeners.get(server.port)?.find(({ bind }) => bind === server.bind);
  if (server.kind !== 'https' || listener === undefined) return NONE;
  // The list of servers is the same object as long as the plan exists.
  const owners = memos.weak<readonly ServerPlan[], Owners>('owners of server names');
  const { byName, demanding, demands } = owners.get(listener.servers, () => ownersOf(listener.servers));
  if (server.isolated) return othersHosts(byName, server);
  const mine = demands.get(server);
  const isElsewhere = (owner: ServerPlan | undefined): boolean => {
    if (owner === undefined || owner === server) return false;
    const theirs = demands.get(owner);
    return theirs !== '' && theirs !== mine;
  };
  const covers = (host: string): boolean => {
    const closest = matchingPatterns(host).find((name) => byName.has(name));
    if (closest !== undefined && isElsewhere(byName.get(closest))) return true;
    return [...demanding].some(([name, owner]) => !isLabelName(name) && hostMatches(name, host) && isElsewhere(owner));
  };
  const hosts = new Set<string>();
  for (const { host } of server.hosts) {
    if (covers(host)) hosts.add(host);
    if (!isWildcardHost(host)) continue;
    for (const [name, owner] of demanding) if (hostMatches(host, name) && isElsewhere(owner)) hosts.add(name);
  }
  return { hosts: [...hosts], covers };
}

/**
 * All names of other servers: requests for them belong on connections to these servers. Requests for unknown names
 * receive HTTP 404.
 */
function othersHosts(byName: Owners['byName'], server: ServerPlan): Misdirected {
  const isElsewhere = (owner: ServerPlan | undefined) => owner !== undefined && owner !== server;
  return {
    hosts: [...byName].filter(([, owner]) => isElsewhere(owner)).map(([name]) => name),
    covers(host) {
      const closest = matchingPatterns(host).find((name) => byName.has(name));
      return closest !== undefined && isElsewhere(byName.get(closest));
    },
  };
}

/** Envoy only supports wildcards for whole labels. Servers with other names get no connections by these names. */
function isLabelName(name: string): boolean {
  return !isWildcardHost(name) || name === '*' || name.startsWith('*.');
}

/** The servers by the TLS server names of their connections. */
interface Owners {
  readonly byName: ReadonlyMap<string, ServerPlan>;
  readonly demanding: ReadonlyMap<string, ServerPlan>;
  /** The requirements of servers for client certificates. */
  readonly demands: ReadonlyMap<ServerPlan, string>;
}

/**
 * As in the listener's filter chains, a name belongs to the first server that has it; a server for all names owns no
 * single name. Passthrough servers only own names for which they have routes; they are left out here, so that later
 * servers count.
 */
function ownersOf(servers: readonly ServerPlan[]): Owners {
  const demands = new Map(servers.map((server) => [server, demandOf(server)]));
  const byName = new Map<string, ServerPlan>();
  for (const server of servers) {
    if (server.kind !== 'https' && demands.get(server) === '') continue;
    const hosts = server.hosts.map(({ host }) => host);
    for (const host of hosts.includes('*') ? ['*'] : hosts) if (!byName.has(host)) byName.set(host, server);
  }
  return { byName, demanding: new Map([...byName].filter(([, owner]) => demands.get(owner) !== '')), demands };
}

/**
 * A server's requirements for client certificates, as a string for comparison; '' if it accepts clients without one.
 */
function demandOf({ tls }: ServerPlan): string {
  if (tls?.mode !== 'MUTUAL' && tls?.mode !== 'MESH_MUTUAL') return '';
  const { mode, caCertificates, caCrl, credentialName, credentialNames, caCertCredentialName } = tls;
  const { subjectAltNames, verifyCertificateHash, verifyCertificateSpki, clientAuthorities } = tls;
  const authorities = [caCertificates, caCrl, credentialName, credentialNames, caCertCredentialName, clientAuthorities];
  return JSON.stringify([mode, authorities, subjectAltNames, verifyCertificateHash, verifyCertificateSpki]);
}
