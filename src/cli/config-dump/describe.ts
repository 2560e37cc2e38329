/** Short descriptions of parts of Envoy's configuration, as the tables of mesh tools have them. */
import { asObject, at, type Json, type JsonObject, listOf, textOf } from './dump.ts';

/** `name.namespace` of the document in `filter_metadata.istio.config`, or ''. */
export function madeBy(message: JsonObject): string {
  const config = textOf(at(message, 'metadata', 'filterMetadata', 'istio', 'config'));
  const [, namespace, , name] = /\/namespaces\/([^/]+)\/([^/]+)\/([^/]+)$/.exec(config) ?? [];
  return name === undefined ? '' : `${name}.${namespace}`;
}

/** `host:port` of an address, or the path of a pipe. */
export function addressOf(address: Json | undefined): { readonly host: string; readonly port: string } {
  const socket = asObject(at(address, 'socketAddress'));
  if (socket.address !== undefined) return { host: textOf(socket.address), port: textOf(socket.portValue) || '0' };
  const internal = textOf(at(address, 'envoyInternalAddress', 'serverListenerName'));
  return { host: internal === '' ? textOf(at(address, 'pipe', 'path')) : `envoy://${internal}`, port: '' };
}

/** The clusters that a route action or a TCP proxy sends to: `a`, or `a 80, b 20`. */
export function clustersOf(action: JsonObject): string {
  const single = textOf(action.cluster) || textOf(action.clusterHeader);
  if (single !== '') return single;
  const weighted = listOf(at(action, 'weightedClusters', 'clusters')).map(asObject);
  return weighted.map(({ name, weight }) => `${textOf(name)} ${textOf(weight) || '0'}`).join(', ');
}

/** What a route matches: path first, then `with headers` where there are more conditions. */
export function describeMatch(match: JsonObject): string {
  const { prefix, path, pathSeparatedPrefix, safeRegex, headers, queryParameters } = match;
  const parts = [
    prefix === undefined ? '' : `${textOf(prefix)}*`,
    pathSeparatedPrefix === undefined ? '' : `${textOf(pathSeparatedPrefix)}/*`,
    textOf(path),
    safeRegex === undefined ? '' : `regex ${textOf(at(safeRegex, 'regex'))}`,
    ...listOf(headers).map((header) => `header ${textOf(asObject(header).name)}`),
    ...listOf(queryParameters).map((parameter) => `query ${textOf(asObject(parameter).name)}`),
  ];
  return parts.filter((part) => part !== '').join(' ');
}

/** Domains without ports and without the longer forms of others; the first two, and how many more. */
export function describeDomains(domains: readonly string[]): string {
  if (domains.length <= 1) return domains[0] ?? '';
  const plain = domains.filter((domain) => !/:\d+$/.test(domain) || /\[[^\]]*$/.test(domain));
  const all = new Set(plain);
  const isLonger = (domain: string): boolean =>
    ['.svc', '.svc.cluster.local'].some((end) => domain.endsWith(end) && all.has(domain.slice(0, -end.length)));
  const short = plain.filter((domain) => !isLonger(domain));
  const shown = short.slice(0, 2).join(', ');
  return short.length > 2 ? `${shown} + ${short.length - 2} more...` : shown;
}

/** What a filter chain matches; `ALL` without conditions. */
export function describeChainMatch(match: JsonObject): string {
  const texts = (list: Json | undefined): string => listOf(list).map(textOf).join(',');
  const port = match.destinationPort === undefined ? '' : `:${textOf(match.destinationPort)}`;
  const addresses = ranges(match.prefixRanges);
  const parts = [
    ['SNI', texts(match.serverNames)],
    ['Trans', textOf(match.transportProtocol)],
    ['App', texts(match.applicationProtocols)],
    ['Addr', addresses === '' && port === '' ? '' : `${addresses || '*'}${port}`],
    ['Source', ranges(match.sourcePrefixRanges)],
  ] as const;
  const shown = parts.filter(([, text]) => text !== '').map(([what, text]) => `${what}: ${text}`);
  return shown.join('; ') || 'ALL';
}

function ranges(list: Json | undefined): string {
  const shown = listOf(list).map((range) => {
    const { addressPrefix, prefixLen } = asObject(range);
    return `${textOf(addressPrefix)}/${textOf(prefixLen) || '0'}`;
  });
  return shown.join(',');
}

/** Where the filters of a chain lead to. */
export function describeDestination(filters: readonly JsonObject[]): string {
  for (const { typedConfig } of filters) {
    const config = asObject(typedConfig);
    const type = textOf(config['@type']).replace(/^.*\./, '');
    if (type === 'HttpConnectionManager') return describeHttp(config);
    if (type === 'TcpProxy') return named(clustersOf(config));
  }
  const last = textOf(filters.at(-1)?.name);
  return last === '' ? 'none' : `Filter: ${last}`;
}

function describeHttp(config: JsonObject): string {
  const rds = textOf(at(config, 'rds', 'routeConfigName'));
  if (rds !== '') return `Route: ${rds}`;
  const hosts = listOf(at(config, 'routeConfig', 'virtualHosts')).map(asObject);
  const routes = hosts.flatMap((host) => listOf(host.routes).map(asObject));
  const [only] = routes;
  const action = asObject(only?.route);
  if (routes.length === 1 && textOf(at(only, 'match', 'prefix')) === '/') return named(clustersOf(action));
  return `Inline Route: ${routes.map(({ match }) => describeMatch(asObject(match))).join(', ')}`;
}

/** Clusters of Envoy's own names, such as `PassthroughCluster`, say themselves what they are. */
const named = (clusters: string): string => (/Cluster$/.test(clusters) ? clusters : `Cluster: ${clusters}`);
