/**
 * Hosts for which other servers of a port demand client certificates. Which server a connection gets follows from its TLS server name,
 * which virtual host from the requests in it: a client that names `other.example` in TLS and `private.example` in its request would
 * have no certificate checked. Such requests are answered with 421 (RFC 9110, section 15.5.20), and honest clients, browsers that share
 * a connection between hosts, come again by a connection of its own.
 */
import { hostMatches } from '../../model/hosts.ts';
import type { GatewayPlan } from './plan.ts';
import type { ServerPlan } from './servers.ts';

/** Hosts within those of `server` that are to be had only by their own server names, each once. */
export function misdirectedHosts(plan: GatewayPlan, server: ServerPlan): readonly string[] {
  const neighbours = plan.listeners.get(server.port)?.find(({ servers }) => servers.includes(server))?.servers ?? [];
  const mine = demand(server);
  const owners = new Map<string, ServerPlan>();
  for (const neighbour of neighbours) {
    for (const { host } of neighbour.hosts) if (!owners.has(host)) owners.set(host, neighbour);
  }
  return [...owners].flatMap(([host, owner]) => {
    const theirs = demand(owner);
    if (owner === server || theirs === '' || theirs === mine) return [];
    return server.hosts.some((own) => own.host !== host && hostMatches(own.host, host)) ? [host] : [];
  });
}

/** Whether a host is within a misdirected one, and `server` has none in between: closer server names lead to it again. */
export function isMisdirected(misdirected: readonly string[], server: ServerPlan, host: string): boolean {
  return misdirected.some(
    (pattern) =>
      hostMatches(pattern, host) &&
      !server.hosts.some(
        (own) => own.host !== pattern && hostMatches(pattern, own.host) && hostMatches(own.host, host),
      ),
  );
}

/** What a server asks of clients' certificates, as text to compare; '' when it takes clients without one. */
function demand({ tls }: ServerPlan): string {
  if (tls?.mode !== 'MUTUAL' && tls?.mode !== 'MESH_MUTUAL') return '';
  const { mode, caCertificates, caCrl, credentialName, credentialNames, caCertCredentialName } = tls;
  const { subjectAltNames, verifyCertificateHash, verifyCertificateSpki } = tls;
  const authorities = [caCertificates, caCrl, credentialName, credentialNames, caCertCredentialName];
  return JSON.stringify([mode, authorities, subjectAltNames, verifyCertificateHash, verifyCertificateSpki]);
}
