/**
 * From a proxy to its views: the parts of its configuration, each shared by all proxies with the same key. Everything
 * that generation reads of a proxy is copied into the view here, and nowhere else.
 */
import { hash } from 'node:crypto';
import { FIELDS_OF_1_40, isAtLeast, OLDEST_TESTED } from '../../core/envoy-version.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import {
  ASKED_EXTENSIONS,
  type Capabilities,
  type EndpointNames,
  familiesOfNode,
  type GatewayView,
  type GrpcClientView,
  type GrpcServerView,
  type InboundPort,
  type InboundView,
  namesSecrets,
  networkClass,
  type OutboundView,
  type Placement,
  type View,
} from '../../generate/index.ts';
import {
  type BoundInstance,
  type Gateway,
  isEmptySelector,
  isTlsReady,
  labelsMatch,
  type MutualTlsMode,
  networkOfRegistry,
  type PeerAuthentication,
  type Snapshot,
} from '../../model/index.ts';
import { patchesFor } from './envoy-filters.ts';
import { ProxyMesh, pick } from './proxy-mesh.ts';
import { onDemandOf } from './sidecar-configuration.ts';

/** The DNS suffix of the namespace's own services. Other suffixes do not resolve to services, and count as ''. */
function dnsDomainFor({ settings }: ProxyMesh, { namespace, dnsDomain }: ProxyNode): string {
  return dnsDomain === `${namespace}.svc.${settings.domain}` ? dnsDomain : '';
}

/** The capabilities that generation reads: a few of the hundreds of extensions that an Envoy lists. */
function capabilitiesOf(node: ProxyNode): Capabilities {
  const {
    extensions,
    sds,
    istioAgent,
    policyCluster,
    version,
    options: { http10, idleTimeoutMs, clientFiles } = {},
  } = node;
  return {
    extensions: extensions && ASKED_EXTENSIONS.filter((name) => extensions.includes(name)),
    sds,
    ...(istioAgent && { istioAgent }),
    ...(policyCluster && { policyCluster }),
    ...(isAtLeast(version, OLDEST_TESTED) && { replacements: true }),
    ...(isAtLeast(version, FIELDS_OF_1_40) && { fieldsOf140: true }),
    ...(http10 && { http10 }),
    ...(idleTimeoutMs !== undefined && { idleTimeoutMs }),
    ...(clientFiles !== undefined && { clientFiles }),
  };
}

/** Outgoing traffic is decided about where it arrives. */
function withoutPolicy({ policyCluster, ...others }: Capabilities): Capabilities {
  return others;
}

function dnsOf(mesh: ProxyMesh, node: ProxyNode): Pick<OutboundView, 'dns'> {
  if (node.dns === undefined) return {};
  const cluster = mesh.endpointCluster(node.clusterId);
  const place = { network: networkClassOf(mesh, node), ...(cluster !== '' && { cluster }) };
  return { dns: node.dns === 'envoy' ? { ...place, listener: true } : place };
}

function endpointNamesFor(node: ProxyNode): EndpointNames {
  return node.shortEndpointNames ? 'short' : 'cluster';
}

/** The properties of a proxy that its spans and access logs depend on. */
function telemetryOf(mesh: ProxyMesh, node: ProxyNode): Pick<OutboundView, 'tracing' | 'telemetry'> {
  const telemetry = mesh.telemetryOf(node.namespace, node.labels);
  return { ...(node.tracing && { tracing: node.tracing }), ...(telemetry.length > 0 && { telemetry }) };
}

type EnvoyFilters = ReturnType<ProxyMesh['envoyFiltersOf']>;

function outboundView(mesh: ProxyMesh, node: ProxyNode, scope: string, filters: EnvoyFilters): OutboundView {
  const cluster = mesh.addressCluster(node.clusterId);
  const ruleLabels = mesh.ruleLabels(mesh.scopeById(scope), node.labels);
  return {
    part: 'outbound',
    scope,
    namespace: node.namespace,
    interception: node.interception,
    families: familiesOfNode(node.addresses),
    sourceLabels: pick(node.labels, mesh.sourceLabels(scope)),
    ...(ruleLabels && { ruleLabels }),
    dnsDomain: dnsDomainFor(mesh, node),
    virtualHosts: node.discoversVirtualHosts ? 'discovered' : 'inline',
    endpointNames: endpointNamesFor(node),
    capabilities: { ...withoutPolicy(capabilitiesOf(node)), ...onDemandOf(mesh, node, scope) },
    ...telemetryOf(mesh, node),
    ...(cluster !== undefined && { cluster }),
    ...dnsOf(mesh, node),
    ...(node.mergesNames && { namePieces: true }),
    ...patchesFor(filters, node, 'outbound'),
  };
}

/**
 * The instances of services of the proxy's own namespace at its addresses. A proxy states its addresses itself, and
 * only its namespace is authenticated: a proxy that states the address of another namespace's workload gets no
 * information about it. Clusters may use the same addresses on different networks: those of the proxy's network are
 * used.
 */
function instancesOf(mesh: ProxyMesh, node: ProxyNode): BoundInstance[] {
  const { addresses, namespace } = node;
  const all = addresses.flatMap((address) => mesh.instancesAt(node, address));
  return all.filter((instance) => instance.namespace === namespace);
}

/** The service ports at the proxy's own addresses, each once, in stable order. */
function inboundPorts(mesh: ProxyMesh, node: ProxyNode): InboundPort[] {
  const ports = new Map<string, InboundPort>();
  for (const instance of instancesOf(mesh, node)) {
    const port: InboundPort = {
      targetPort: instance.endpoint.port,
      servicePort: instance.port.port,
      portName: instance.port.name,
      protocol: instance.port.protocol,
      hostname: instance.hostname,
      namespace: node.namespace,
    };
    ports.set(
      `${String(port.targetPort).padStart(5, '0')}/${port.hostname}/${port.namespace}/${port.servicePort}`,
      port,
    );
  }
  return [...ports.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, port]) => port);
}

/** Port settings are copied only for ports that are served: a service's, or a Sidecar's ingress listener's. */
function peerAuthentication(
  mesh: ProxyMesh,
  node: ProxyNode,
  scope: string,
  bound: readonly InboundPort[],
): PeerAuthentication {
  const { mode, ports } = mesh.peerAuthenticationOf(node.namespace, node.labels);
  const ingress = mesh.ingressOf(scope);
  const served =
    ingress === undefined ? bound.map(({ targetPort }) => targetPort) : ingress.map(({ port }) => port.number);
  const own: Record<number, MutualTlsMode> = {};
  for (const [key, ofPort] of Object.entries(ports)) {
    if (ofPort !== mode && served.includes(Number(key))) own[Number(key)] = ofPort;
  }
  return { mode, ports: own };
}

/**
 * The component knows the services at a proxy's addresses, whatever their namespaces, and the labels that the workload
 * there has now.
 */
function policyOf(mesh: ProxyMesh, node: ProxyNode): Pick<InboundView, 'policy'> {
  const { namespace, labels, addresses } = node;
  const instances = addresses.flatMap((address) => mesh.instancesAt(node, address));
  const hosts = [...new Set(instances.map(({ hostname }) => hostname))];
  const own = instances.filter(({ endpoint: { workload } }) => workload?.namespace === namespace);
  const stated = new Set([labels, ...own.map(({ endpoint }) => endpoint.labels)]);
  const policy = mesh.policyNeeds(node, { namespace, labels: [...stated], hosts });
  return Object.keys(policy).length === 0 ? {} : { policy };
}

function inboundView(mesh: ProxyMesh, node: ProxyNode, scope: string, filters: EnvoyFilters): InboundView {
  const ports = inboundPorts(mesh, node);
  const ruleLabels = mesh.ruleLabels(mesh.scopeById(scope), node.labels);
  return {
    part: 'inbound',
    scope,
    namespace: node.namespace,
    interception: node.interception,
    families: familiesOfNode(node.addresses),
    ...(ruleLabels && { ruleLabels }),
    ports,
    peerAuthentication: peerAuthentication(mesh, node, scope, ports),
    policies: mesh.policiesOf(node.namespace, node.labels),
    ...policyOf(mesh, node),
    addresses: node.interception === 'NONE' ? node.addresses : [],
    capabilities: capabilitiesOf(node),
    ...telemetryOf(mesh, node),
    ...patchesFor(filters, node, 'inbound'),
  };
}

/** Where the gateway's own service sends a port: Gateway port 80 may be served on container port 8080. */
function portMap(mesh: ProxyMesh, node: ProxyNode): Record<number, number> {
  const map = new Map<number, number>();
  for (const { port, endpoint } of instancesOf(mesh, node)) map.set(port.port, endpoint.port);
  return Object.fromEntries([...map.entries()].sort(([a], [b]) => a - b));
}

/**
 * The Gateways that a proxy is authorized to serve with Secrets of its namespace. A node may state any labels, but its
 * credential only proves a namespace and a service account. So the registry must contain a workload of that account
 * that the Gateway selects. Namespaces of other trust domains are different namespaces, even if their names are equal.
 */
function provedGateways(mesh: ProxyMesh, node: ProxyNode, gateways: readonly Gateway[]): readonly Gateway[] {
  const { identity, namespace } = node;
  if (identity === undefined || identity.namespace !== namespace) return [];
  if (identity.trustDomain !== mesh.settings.trustDomain) return [];
  const registered = mesh.registeredLabels(namespace, identity.serviceAccount);
  return gateways.filter(
    ({ content: { selector } }) =>
      // An empty selector matches every workload of the namespace, and so proves nothing.
      !isEmptySelector(selector) && registered.some((labels) => labelsMatch(selector ?? {}, labels)),
  );
}

function hasSecrets({ content: { servers } }: Gateway): boolean {
  return servers?.some(({ tls }) => namesSecrets(tls)) === true;
}

function gatewayName({ meta: { namespace, name } }: Gateway): string {
  return `${namespace}/${name}`;
}

/**
 * Without proof, the key pair is missing, so that connections fail: servers might accept connections without it, with
 * fewer permissions.
 */
function clientKeyPair(gateways: readonly Gateway[], proved: readonly Gateway[]): Pick<GatewayView, 'clientKeyPair'> {
  const named = gateways.find(({ content }) => content.clientKeyPair !== undefined);
  if (named?.content.clientKeyPair === undefined) return {};
  return { clientKeyPair: proved.includes(named) ? named.content.clientKeyPair : { namespace: '', name: '' } };
}

function gatewayView(mesh: ProxyMesh, node: ProxyNode): GatewayView {
  const gateways = mesh.gatewaysFor(node.namespace, node.labels);
  const proved = provedGateways(mesh, node, gateways);
  const ruleLabels = mesh.ruleLabels(mesh.gatewayScope(node.namespace), node.labels);
  return {
    part: 'gateway',
    namespace: node.namespace,
    ...(ruleLabels && { ruleLabels }),
    gateways: gateways.map(gatewayName),
    credentialed: proved.filter(hasSecrets).map(gatewayName),
    ...(node.agentReadsSecrets && { agentReadsSecrets: true }),
    clientCredentials: proved.length > 0,
    ...(gateways.some(({ content }) => content.isolated === true) && { isolated: true }),
    ...clientKeyPair(gateways, proved),
    policies: mesh.policiesOf(node.namespace, node.labels),
    ...policyOf(mesh, node),
    portMap: portMap(mesh, node),
    ...(node.options?.gatewayTopology !== undefined && { topology: node.options.gatewayTopology }),
    families: familiesOfNode(node.addresses),
    endpointNames: endpointNamesFor(node),
    capabilities: capabilitiesOf(node),
    ...(node.mergesNames && { namePieces: true }),
    ...telemetryOf(mesh, node),
    ...patchesFor(mesh.envoyFiltersOf(node), node, 'gateway'),
  };
}

/** The parts of a gRPC application that speaks xDS itself. */
function grpcViews(mesh: ProxyMesh, node: ProxyNode): readonly View[] {
  const scope = mesh.scopeOf(node.namespace, node.labels).id;
  const ruleLabels = mesh.ruleLabels(mesh.scopeById(scope), node.labels);
  const client: GrpcClientView = {
    part: 'grpc-client',
    scope,
    namespace: node.namespace,
    families: familiesOfNode(node.addresses),
    sourceLabels: pick(node.labels, mesh.sourceLabels(scope)),
    ...(ruleLabels && { ruleLabels }),
    dnsDomain: dnsDomainFor(mesh, node),
    endpointNames: 'cluster',
  };
  const ports = inboundPorts(mesh, node);
  const server: GrpcServerView = {
    part: 'grpc-server',
    scope,
    namespace: node.namespace,
    ports,
    peerAuthentication: peerAuthentication(mesh, node, scope, ports),
    tlsReady: isTlsReady(node.labels),
    policies: mesh.policiesOf(node.namespace, node.labels),
  };
  return [client, server];
}

/** The views of a proxy, in the order of its parts. */
export function viewsOf(snapshot: Snapshot, node: ProxyNode): readonly View[] {
  const mesh = new ProxyMesh(snapshot);
  if (node.proxyless === true) return grpcViews(mesh, node);
  if (node.type === 'router') return [gatewayView(mesh, node)];
  const scope = mesh.scopeOf(node.namespace, node.labels).id;
  const filters = mesh.envoyFiltersOf(node);
  return [outboundView(mesh, node, scope, filters), inboundView(mesh, node, scope, filters)];
}

/** The placement of a proxy: in the network that it states, else in that of its cluster. */
export function placementOf(snapshot: Snapshot, node: ProxyNode): Placement {
  const mesh = new ProxyMesh(snapshot);
  const labels = mesh.failoverLabels(node);
  return {
    network: networkClassOf(mesh, node),
    locality: mesh.localityOf(node.locality),
    cluster: mesh.endpointCluster(node.clusterId),
    ...(labels && { labels }),
  };
}

function networkClassOf(mesh: ProxyMesh, node: ProxyNode): string {
  const { memos, networks } = mesh;
  // A network without gateways, too: others are not reached from it as from the network of the cluster.
  const network = mesh.statedNetwork(node) ?? networkOfRegistry(networks, node.clusterId) ?? '';
  return networkClass(memos, networks, network);
}

/** Key of a placement: equal placements, equal keys. */
export function placementKey({ network, locality, cluster, labels }: Placement): string {
  return JSON.stringify([network, locality, cluster, ...(labels === undefined ? [] : [labels])]);
}

/**
 * 128 bits: proxies influence the content of their views, and must not be able to construct a collision with another
 * view.
 */
const KEY_HEX_DIGITS = 32;

/** The keys of views with patches of clusters have it before their digest. */
const CLUSTER_PATCHES = 'patched';

/** Key of a view: equal views, equal keys. Members are in a fixed order, so the JSON is canonical. */
export function viewKey(view: View): string {
  const digest = hash('sha256', JSON.stringify(view), 'hex').slice(0, KEY_HEX_DIGITS);
  const patched = 'patches' in view && view.patches?.cds !== undefined ? [CLUSTER_PATCHES] : [];
  return [view.part, view.part === 'gateway' ? view.namespace : view.scope, ...patched, digest].join(':');
}

/** Whether EnvoyFilters patch the clusters of the view with this key, or with one that begins with it. */
export function hasClusterPatches(key: string): boolean {
  return key.split(':', 3)[2] === CLUSTER_PATCHES;
}

/** The scope in the key of a view, or in a string that begins with one. */
export function scopeOfKey(key: string): string {
  return key.split(':', 2)[1] ?? '';
}
