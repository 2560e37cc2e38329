/**
 * The clusters that the virtual host for a name probably leads to, before that is known. A proxy chooses the names and
 * its domain, so that only such as a service may have are tried.
 */

/** Most characters of a host name (RFC 1035, section 2.3.4). */
const MAX_HOST = 253;
/** Most domains that are tried for a name. That of a namespace has four labels: `shop.svc.cluster.local`. */
const MAX_DOMAINS = 8;

/**
 * Names of clusters of the services that these names of hosts probably are of, at most nine for each.
 * @param names of requests: `<route configuration>/<host>`
 */
export function* likelyClusters(names: Iterable<string>, dnsDomain: string): Iterable<string> {
  const domains = domainsOf(dnsDomain);
  for (const name of names) {
    // The route configuration is named by its port, the host may be anything.
    const [routes = '', host = ''] = name.length > 2 * MAX_HOST ? [] : name.split('/', 2);
    if (host === '' || host.length > MAX_HOST) continue;
    yield `outbound|${routes}||${host}`;
    for (const domain of domains) yield `outbound|${routes}||${host}.${domain}`;
  }
}

/** The domain and those that it is in. */
function domainsOf(dnsDomain: string): readonly string[] {
  if (dnsDomain.length > MAX_HOST) return [];
  const labels = dnsDomain.split('.');
  return labels.slice(0, MAX_DOMAINS).map((_, at) => labels.slice(at).join('.'));
}
