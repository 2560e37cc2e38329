/**
 * `/debug/whyz`: the way of a request through the configuration of its client's proxy (listener, route, clusters, how
 * mutual TLS was decided), the policies at its destination, and the documents behind each of them.
 */
import { CtlError } from '../../core/errors.ts';
import type { XdsType } from '../../core/xds-types.ts';
import type { Endpoint, Service } from '../../model/index.ts';
import { envoy } from '../../protobuf/index.ts';
import { type ConnectionStatus, type EncodedResource, resourceMessage } from '../../push/index.ts';
import type { ResourceKey } from '../../resources/index.ts';
import { hostOnDemand, onDemandOf, shownReasons } from '../held.ts';
import { Stepwise } from '../json-pieces.ts';
import { connectionsFor } from '../page.ts';
import { hostsOf, resourcesOf } from '../proxies.ts';
import type { Viewed } from '../viewed.ts';
import { type Destination, parseDestination } from './destination.ts';
import {
  isExactFor,
  listenerFor,
  type Next,
  nextOf,
  routeFor,
  virtualHostFor,
  type Weighted,
  weighted,
} from './match.ts';

const { Listener } = envoy.config.listener.v3;
const { RouteConfiguration, VirtualHost } = envoy.config.route.v3;
const { Cluster } = envoy.config.cluster.v3;

/** The listener of redirected connections to addresses without a listener of their own. */
const CATCH_ALL = 'virtualOutbound';

/** Different sets of labels of a destination's workloads whose policies are shown. */
const MAX_WORKLOADS = 5;

/** The largest number of clusters of a route, and of documents behind one resource, that an answer names. */
const MAX_NAMED = 100;

/** Computing yields after each resource that is decoded or explained: routes may have thousands of clusters. */
type Steps<T> = Generator<void, T>;

/** Undefined when a parameter is missing. Throws CtlError invalid_argument when the proxy is not connected. */
export function whyz(mesh: Viewed, query: URLSearchParams): Stepwise | undefined {
  const [source, text] = [query.get('source') ?? '', query.get('destination') ?? ''];
  if (source === '' || text === '') return undefined;
  const destination = parseDestination(text);
  const [connection] = connectionsFor(mesh, new URLSearchParams({ proxyID: source }));
  if (connection === undefined)
    throw new CtlError('invalid_argument', `source: ${source.slice(0, 256)} is not connected`);
  return new Stepwise(answer(mesh, connection, destination));
}

function* answer(mesh: Viewed, connection: ConnectionStatus, destination: Destination): Steps<object> {
  const service = mesh.serviceNamed(namesOf(destination, connection));
  // Names of outbound listeners are `<address>_<port>`: decoding all of them would take time from pushes.
  const wanted = resourcesOf(mesh, connection, 'lds').filter(({ name }) => {
    return name === CATCH_ALL || name.endsWith(`_${destination.port}`);
  });
  const listeners = yield* each(wanted, (one) => Listener.decode(resourceMessage(one)));
  const addresses = [destination.host, ...(service?.addresses ?? []), ...(service?.allocatedAddresses ?? [])];
  const listener = listenerFor(listeners, addresses, destination) ?? listeners.find(({ name }) => name === CATCH_ALL);
  const next = listener && nextOf(listener, addresses, destination);
  const way = next && (yield* wayOf(mesh, connection, next, destination));
  return {
    source: connection.node.workload,
    destination: { ...destination, ...(service !== undefined && { service: service.key }) },
    ...noteOf(service, destination),
    listener: listener && { name: listener.name, documents: documentsOf(mesh, connection, listener.name ?? '') },
    ...way,
    policies: service === undefined ? [] : yield* policiesAt(mesh, service, destination),
  };
}

/** The usual mistake in a question: a port that the service does not have. */
function noteOf(service: Service | undefined, { host, port }: Destination): { readonly note?: string } {
  if (service === undefined || service.ports.some((known) => known.port === port)) return {};
  const ports = service.ports.slice(0, MAX_NAMED).map((known) => known.port);
  return { note: `the service of ${host} has no port ${port}, but ${ports.join(', ') || 'none'}` };
}

/** Maps with a step for each item. */
function* each<T, R>(items: Iterable<T>, one: (item: T) => R): Steps<R[]> {
  const results: R[] = [];
  for (const item of items) {
    results.push(one(item));
    yield;
  }
  return results;
}

/** Forms of a host name that clients of a namespace may use. */
function namesOf({ host }: Destination, { node }: ConnectionStatus): string[] {
  // The domain of a node is `<namespace>.svc.<domain>`.
  const svc = node.dnsDomain.replace(/^[^.]*\./, '');
  return [host, `${host}.${node.namespace}.${svc}`, `${host}.${svc}`, `${host}.${svc.replace(/^svc\./, '')}`];
}

function* wayOf(mesh: Viewed, connection: ConnectionStatus, next: Next, destination: Destination): Steps<object> {
  if (next.kind === 'tcp') return yield* clustersOf(mesh, connection, next.clusters);
  const { routeName } = next;
  const hosts = routeName === '' ? next.inline : yield* virtualHostsOf(mesh, connection, routeName);
  const host = virtualHostFor(hosts, destination);
  if (!isExactFor(host, destination) && mesh.isLater(connection, 'vhds', `${routeName}/${destination.host}`))
    return {
      route: {
        name: routeName,
        generated: 'when a proxy asks for its host',
        documents: documentsOf(mesh, connection, routeName),
        onDemand: shownReasons([]),
      },
    };
  const found = host && routeFor(host, destination.path);
  const { route } = found ?? {};
  const before = found?.before.map(({ route: other, conditions }) => {
    const clusters = weighted(other.route?.cluster, other.route?.weightedClusters?.clusters);
    return { conditions, clusters: clusters.slice(0, MAX_NAMED) };
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
      // Names of discovered virtual hosts begin with that of their route configuration.
      ...(host?.name?.startsWith(`${routeName}/`) === true &&
        hostOnDemand(mesh, connection, { name: host.name, host: destination.host })),
    },
    ...(yield* clustersOf(mesh, connection, weighted(route?.route?.cluster, route?.route?.weightedClusters?.clusters))),
  };
}

function* clustersOf(mesh: Viewed, connection: ConnectionStatus, all: readonly Weighted[]): Steps<object> {
  const clusters = yield* each(all.slice(0, MAX_NAMED), (one) => clusterOf(mesh, connection, one));
  return { clusters, ...(all.length > MAX_NAMED && { clustersOmitted: all.length - MAX_NAMED }) };
}

/** The condition on the path. Values of headers are left out, because they may be credentials. */
function pathOf({ path, prefix, pathSeparatedPrefix }: envoy.config.route.v3.RouteMatch): string {
  if (path != null && path !== '') return path;
  return pathSeparatedPrefix ? `${pathSeparatedPrefix}/*` : `${prefix ?? ''}*`;
}

function* virtualHostsOf(mesh: Viewed, connection: ConnectionStatus, name: string) {
  const config = resourceNamed(mesh, connection, 'rds', name);
  const all = mesh.everything(connection, 'vhds').flatMap((bundle) => bundle.resources());
  const discovered = hostsOf(all, name);
  const own = config === undefined ? [] : (RouteConfiguration.decode(resourceMessage(config)).virtualHosts ?? []);
  yield;
  return [...own, ...(yield* each(discovered, (host) => VirtualHost.decode(resourceMessage(host))))];
}

function resourceNamed(
  mesh: Viewed,
  connection: ConnectionStatus,
  type: XdsType,
  name: string,
): EncodedResource | undefined {
  for (const bundle of mesh.everything(connection, type)) {
    const found = bundle.get(name);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** A cluster that is not there: no proxy like this one has asked for it, or it does not exist. */
function absent(mesh: Viewed, connection: ConnectionStatus, cluster: string): object {
  const [, port, subset, host = ''] = cluster.split('|');
  const hasPort = mesh.serviceNamed([host])?.ports.some((each) => String(each.port) === port);
  if (!mesh.isLater(connection, 'cds', cluster) || hasPort !== true) return { missing: true };
  const ifAny = subset === '' ? '' : `, if a DestinationRule has the subset ${subset}`;
  return { generated: `when a proxy asks for it${ifAny}` };
}

function clusterOf(mesh: Viewed, connection: ConnectionStatus, { name, weight }: Weighted): object {
  const resource = resourceNamed(mesh, connection, 'cds', name);
  const cluster = resource && Cluster.decode(resourceMessage(resource));
  return {
    name,
    ...(weight !== undefined && { weight }),
    ...(cluster === undefined ? absent(mesh, connection, name) : { mutualTls: mutualTlsOf(cluster) }),
    documents: documentsOf(mesh, connection, name),
    ...(cluster !== undefined && onDemandOf(mesh, connection, 'cds', name)),
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
  return [...keys]
    .sort()
    .slice(0, MAX_NAMED)
    .map((key) => shownDocument(mesh, key));
}

/** A document with its origin, where the viewer may see it. */
function shownDocument(mesh: Viewed, key: ResourceKey): object {
  const [inForce] = mesh.documents(key);
  return { key, ...(inForce !== undefined && { origin: inForce.resource.origin }) };
}

/**
 * The policies of the workloads behind a service, in namespaces that the viewer sees: once for each namespace and set
 * of labels. Policies are those of the namespace of the workload, which may be another one than that of the service.
 */
function* policiesAt(
  mesh: Viewed,
  service: NonNullable<ReturnType<Viewed['serviceNamed']>>,
  { port }: Destination,
): Steps<object[]> {
  const portName = service.ports.find((one) => one.port === port)?.name;
  const homeOf = ({ workload }: Endpoint): string => workload?.namespace ?? service.namespace;
  const endpoints = mesh.endpoints(service).filter((one) => one.servicePort === portName && mesh.sees(homeOf(one)));
  yield;
  const kinds = Map.groupBy(endpoints, (one) => JSON.stringify([homeOf(one), one.labels]));
  yield;
  const shown = [...kinds.values()].slice(0, MAX_WORKLOADS);
  const policies = yield* each(shown, (alike) => alike[0] && policiesOf(mesh, homeOf(alike[0]), alike[0], alike));
  return policies.filter((one) => one !== undefined);
}

/** The policies of workloads of one namespace with equal labels. */
function policiesOf(mesh: Viewed, namespace: string, { labels, port }: Endpoint, alike: readonly Endpoint[]): object {
  const { peerAuthentication, authentication, authorization } = mesh.policiesOf(namespace, labels);
  const documents = (keys: readonly ResourceKey[]) => keys.slice(0, MAX_NAMED).map((key) => shownDocument(mesh, key));
  return {
    namespace,
    labels,
    endpoints: alike.length,
    acceptMutualTls: alike.filter(({ tlsReady }) => tlsReady).length,
    mutualTls: peerAuthentication.ports[port] ?? peerAuthentication.mode,
    peerAuthentications: documents(mesh.peerAuthenticationsOf(namespace, labels)),
    requestAuthentications: documents(authentication),
    authorizationPolicies: documents(authorization),
  };
}
