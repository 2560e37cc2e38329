/**
 * `/debug/whyz`: the way of a request through the configuration of its client's proxy (listener, route, clusters, how
 * mutual TLS was decided), the policies at its destination, and the documents behind each of them.
 */
import { CtlError } from '../../core/errors.ts';
import type { XdsType } from '../../core/xds-types.ts';
import { envoy } from '../../protobuf/index.ts';
import { type ConnectionStatus, resourceMessage } from '../../push/index.ts';
import type { ResourceKey } from '../../resources/index.ts';
import { connectionsFor } from '../page.ts';
import { hostsOf, resourcesOf } from '../proxies.ts';
import type { Viewed } from '../viewed.ts';
import { type Destination, parseDestination } from './destination.ts';
import { listenerFor, type Next, nextOf, routeFor, virtualHostFor, type Weighted, weighted } from './match.ts';

const { Listener } = envoy.config.listener.v3;
const { RouteConfiguration, VirtualHost } = envoy.config.route.v3;
const { Cluster } = envoy.config.cluster.v3;

/** The listener of redirected connections to addresses without a listener of their own. */
const CATCH_ALL = 'virtualOutbound';

/** Different sets of labels of a destination's workloads whose policies are shown. */
const MAX_WORKLOADS = 5;

/** Undefined when a parameter is missing or the proxy is not connected. */
export function whyz(mesh: Viewed, query: URLSearchParams): unknown {
  const [source, text] = [query.get('source') ?? '', query.get('destination') ?? ''];
  if (source === '' || text === '') return undefined;
  const destination = parseDestination(text);
  const [connection] = connectionsFor(mesh, new URLSearchParams({ proxyID: source }));
  if (connection === undefined)
    throw new CtlError('invalid_argument', `source: ${source.slice(0, 256)} is not connected`);
  const service = mesh.serviceNamed(namesOf(destination, connection));
  // Names of outbound listeners are `<address>_<port>`: decoding all of them would take time from pushes.
  const wanted = resourcesOf(mesh, connection, 'lds').filter(({ name }) => {
    return name === CATCH_ALL || name.endsWith(`_${destination.port}`);
  });
  const listeners = wanted.map((one) => Listener.decode(resourceMessage(one)));
  const addresses = [destination.host, ...(service?.addresses ?? []), ...(service?.allocatedAddresses ?? [])];
  const listener = listenerFor(listeners, addresses, destination) ?? listeners.find(({ name }) => name === CATCH_ALL);
  const next = listener && nextOf(listener, addresses, destination);
  const way = next && wayOf(mesh, connection, next, destination);
  return {
    source: connection.node.workload,
    destination: { ...destination, ...(service !== undefined && { service: service.key }) },
    listener: listener && { name: listener.name, documents: documentsOf(mesh, connection, listener.name ?? '') },
    ...way,
    policies: service === undefined ? [] : policiesAt(mesh, service, destination),
  };
}

/** Forms of a host name that clients of a namespace may use. */
function namesOf({ host }: Destination, { node }: ConnectionStatus): string[] {
  // The domain of a node is `<namespace>.svc.<domain>`.
  const svc = node.dnsDomain.replace(/^[^.]*\./, '');
  return [host, `${host}.${node.namespace}.${svc}`, `${host}.${svc}`, `${host}.${svc.replace(/^svc\./, '')}`];
}

function wayOf(mesh: Viewed, connection: ConnectionStatus, next: Next, destination: Destination): object {
  const clusters = (all: readonly Weighted[]) => ({ clusters: all.map((one) => clusterOf(mesh, connection, one)) });
  if (next.kind === 'tcp') return clusters(next.clusters);
  const { routeName } = next;
  const hosts = routeName === '' ? next.inline : virtualHostsOf(mesh, connection, routeName);
  const host = virtualHostFor(hosts, destination);
  const found = host && routeFor(host, destination.path);
  const { route } = found ?? {};
  const before = found?.before.map(({ route: other, conditions }) => {
    return { conditions, clusters: weighted(other.route?.cluster, other.route?.weightedClusters?.clusters) };
  });
  return {
    route: {
      name: routeName,
      virtualHost: host?.name,
      ...(route?.match && { match: pathOf(route.match) }),
      ...(route === undefined && { result: '404' }),
      ...(route?.redirect && { result: 'redirect' }),
      ...(route?.directResponse && { result: String(route.directResponse.status ?? '') }),
      ...(before !== undefined && before.length > 0 && { onlyIf: before }),
      documents: [...madeBy(mesh, route?.metadata), ...documentsOf(mesh, connection, routeName)],
    },
    ...clusters(weighted(route?.route?.cluster, route?.route?.weightedClusters?.clusters)),
  };
}

/** The condition on the path. Values of headers are left out, because they may be credentials. */
function pathOf({ path, prefix, pathSeparatedPrefix }: envoy.config.route.v3.RouteMatch): string {
  if (path != null && path !== '') return path;
  return pathSeparatedPrefix ? `${pathSeparatedPrefix}/*` : `${prefix ?? ''}*`;
}

function virtualHostsOf(mesh: Viewed, connection: ConnectionStatus, name: string) {
  const config = resourceNamed(mesh, connection, 'rds', name);
  const discovered = hostsOf(resourcesOf(mesh, connection, 'vhds'), name);
  const own = config === undefined ? [] : (RouteConfiguration.decode(resourceMessage(config)).virtualHosts ?? []);
  return [...own, ...discovered.map((host) => VirtualHost.decode(resourceMessage(host)))];
}

function resourceNamed(mesh: Viewed, connection: ConnectionStatus, type: XdsType, name: string) {
  return resourcesOf(mesh, connection, type).find((one) => one.name === name);
}

function clusterOf(mesh: Viewed, connection: ConnectionStatus, { name, weight }: Weighted): object {
  const resource = resourceNamed(mesh, connection, 'cds', name);
  const cluster = resource && Cluster.decode(resourceMessage(resource));
  return {
    name,
    ...(weight !== undefined && { weight }),
    ...(cluster === undefined ? { missing: true } : { mutualTls: mutualTlsOf(cluster) }),
    documents: documentsOf(mesh, connection, name),
  };
}

/** When a client opens connections with the certificates of the mesh. */
function mutualTlsOf({ transportSocket, transportSocketMatches = [] }: envoy.config.cluster.v3.Cluster): string {
  if (transportSocketMatches.some(({ name }) => name === 'tlsMode-mesh')) {
    return 'automatic: to endpoints whose proxies accept it';
  }
  return transportSocket == null ? 'none: plain text' : 'always, as the documents of the cluster say';
}

/** The document that a route names in its metadata `istio.config`: `…/namespaces/shop/virtual-service/web`. */
function madeBy(mesh: Viewed, metadata: envoy.config.core.v3.Metadata | null | undefined): object[] {
  const config = metadata?.filterMetadata?.istio?.fields?.config?.stringValue ?? '';
  const [, namespace, kind = '', name] = /\/namespaces\/([^/]+)\/([a-z-]+)\/([^/]+)$/.exec(config) ?? [];
  if (name === undefined) return [];
  const pascal = kind.replace(/(?:^|-)([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return [shownDocument(mesh, `${pascal}/${namespace}/${name}`)];
}

function documentsOf(mesh: Viewed, connection: ConnectionStatus, name: string): object[] {
  const keys = new Set<ResourceKey>();
  if (name !== '')
    for (const { documents } of mesh.reasonsFor(connection, name)) for (const key of documents) keys.add(key);
  return [...keys].sort().map((key) => shownDocument(mesh, key));
}

/** A document with its origin, where the viewer may see it. */
function shownDocument(mesh: Viewed, key: ResourceKey): object {
  const [inForce] = mesh.documents(key);
  return { key, ...(inForce !== undefined && { origin: inForce.resource.origin }) };
}

/** The policies of the workloads behind a service, which the viewer sees: once for each set of labels. */
function policiesAt(mesh: Viewed, service: NonNullable<ReturnType<Viewed['serviceNamed']>>, { port }: Destination) {
  const portName = service.ports.find((one) => one.port === port)?.name;
  const endpoints = mesh.endpoints(service).filter(({ servicePort }) => servicePort === portName);
  const kinds = Map.groupBy(endpoints, ({ labels }) => JSON.stringify(labels));
  return [...kinds.values()].slice(0, MAX_WORKLOADS).flatMap((alike) => {
    const [first] = alike;
    if (first === undefined) return [];
    const { labels, port: target } = first;
    const { peerAuthentication, authentication, authorization } = mesh.policiesOf(service.namespace, labels);
    return {
      labels,
      endpoints: alike.length,
      acceptMutualTls: alike.filter(({ tlsReady }) => tlsReady).length,
      mutualTls: peerAuthentication.ports[target] ?? peerAuthentication.mode,
      peerAuthentications: mesh.peerAuthenticationsOf(service.namespace, labels).map((key) => shownDocument(mesh, key)),
      requestAuthentications: authentication.map((key) => shownDocument(mesh, key)),
      authorizationPolicies: authorization.map((key) => shownDocument(mesh, key)),
    };
  });
}
