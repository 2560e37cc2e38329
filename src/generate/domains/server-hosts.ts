/** Which hosts of a virtual service belong to a gateway server. */
import { canonicalHost, hostMatches } from '../../model/index.ts';

/** A server's host entry: `namespace/host`, where the namespace may be `*` or absent (any) or `.` (the gateway's). */
export interface ServerHost {
  /** Undefined: virtual services of any namespace. */
  readonly namespace: string | undefined;
  readonly host: string;
}

export function serverHost(entry: string, gatewayNamespace: string): ServerHost {
  const slash = entry.indexOf('/');
  const host = canonicalHost(entry.slice(slash + 1));
  const namespace = slash < 0 ? '*' : entry.slice(0, slash);
  if (namespace === '*') return { namespace: undefined, host };
  return { namespace: namespace === '.' ? gatewayNamespace : namespace, host };
}

/**
 * The common hosts of a server and a virtual service: of two hosts that overlap, the more specific one. In the order of
 * the virtual service's hosts, without duplicates.
 */
export function commonHosts(
  serverHosts: readonly ServerHost[],
  virtualService: { readonly namespace: string; readonly hosts: readonly string[] },
): readonly string[] {
  const common = new Set<string>();
  for (const host of virtualService.hosts) {
    for (const server of serverHosts) {
      if (server.namespace !== undefined && server.namespace !== virtualService.namespace) continue;
      if (hostMatches(server.host, host)) common.add(host);
      else if (hostMatches(host, server.host)) common.add(server.host);
    }
  }
  return [...common];
}
