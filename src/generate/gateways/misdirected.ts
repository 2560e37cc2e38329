/**
 * Hosts for which other servers of a port demand client certificates, and all hosts of other servers where a Gateway is
 * isolated. The TLS server name decides which server a
 * connection gets, the requests in it decide on the virtual host: a client that names `other.example` in TLS and
 * `private.example` in its request would have no certificate verified. Such requests are answered with 421 (RFC 9110,
 * section 15.5.20), and honest clients, such as browsers that share a connection between hosts, retry on a connection
 * of its own.
 */
import type { Memos } from '../../core/memo.ts';
import { hostMatches, isWildcardHost, matchingPatterns } from '../../model/index.ts';
import type { GatewayPlan, ServerPlan } from '../listener-plans/index.ts';

/** A server's hosts that are available only by the server names of others. */
export interface Misdirected {
  /** Without duplicates. */
  readonly hosts: readonly string[];
  /** Whether requests for a host belong to another server: closer names of the server's own lead to it again. */
  covers(host: string): boolean;
}

const NONE: Misdirected = { hosts: [], covers: () => false };

export function misdirectedHosts(memos: Memos, plan: GatewayPlan, server: ServerPlan): Misdirected {
  const listener = plan.listeners.get(server.port)?.find(({ bind }) => bind === server.bind);
  if (server.kind !== 'https' || listener === undefined) return NONE;
  // The list of servers is one object for as long as the plan.
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

/** All names of others: requests for them belong to their connections. Names that nobody has are answered with 404. */
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

/** Envoy supports wildcards only for whole labels. Others lead to no server, and its demands on clients stay. */
function isLabelName(name: string): boolean {
  return !isWildcardHost(name) || name === '*' || name.startsWith('*.');
}

/** Which server gets the connections of which server name. */
interface Owners {
  readonly byName: ReadonlyMap<string, ServerPlan>;
  readonly demanding: ReadonlyMap<string, ServerPlan>;
  /** The demands of servers on client certificates. */
  readonly demands: ReadonlyMap<ServerPlan, string>;
}

/**
 * As in the listener's filter chains: a name leads to the first server that has it; a server for all names owns no
 * single one. Passthrough servers own names only where they have routes; they are left out here, so that the servers
 * after them count.
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

/** A server's demands on client certificates, as text to compare; '' when it accepts clients without one. */
function demandOf({ tls }: ServerPlan): string {
  if (tls?.mode !== 'MUTUAL' && tls?.mode !== 'MESH_MUTUAL') return '';
  const { mode, caCertificates, caCrl, credentialName, credentialNames, caCertCredentialName } = tls;
  const { subjectAltNames, verifyCertificateHash, verifyCertificateSpki, clientAuthorities } = tls;
  const authorities = [caCertificates, caCrl, credentialName, credentialNames, caCertCredentialName, clientAuthorities];
  return JSON.stringify([mode, authorities, subjectAltNames, verifyCertificateHash, verifyCertificateSpki]);
}
