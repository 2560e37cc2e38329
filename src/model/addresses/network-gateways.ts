/**
 * The gateways through which the endpoints of a network are reached from other networks. The mesh networks name them by
 * IP address, by host name, or as a Service (`registryServiceName`). Of a Service, the external addresses in each
 * cluster of the network (`fromRegistry`) are used: those of its load balancer, its external IPs, or those of nodes
 * that it selects by annotation, as in Istio. Host names are resolved by the program that publishes the snapshots.
 */
import { isDnsSubdomain } from '../../core/dns-names.ts';
import {
  type MeshNetwork,
  type MeshNetworks,
  type ResolvedHosts,
  type Resource,
  type ResourceKey,
  resourceKey,
} from '../../resources/index.ts';
import { deepEqual } from '../common/equal.ts';
import { canonicalHost } from '../common/hosts.ts';
import { labelsMatch } from '../common/labels.ts';
import { isIpAddress } from '../common/networks.ts';
import { compareText } from '../common/order.ts';
import { type ResourceTables, tableOf } from '../common/tables.ts';
import type { ModelSettings, NetworkGateway, NetworkGateways } from '../types/types.ts';

/** Maximum number of gateways from one entry of the configuration: every client gets all of them. */
export const MAX_GATEWAYS = 32;
/** Maximum number of host names that are resolved for all networks together. */
export const MAX_GATEWAY_HOSTS = 100;

/** Annotation of a Service of type NodePort: JSON of the labels of the nodes that clients outside use. */
const NODE_SELECTOR = 'traffic.mesh.io/nodeSelector';

interface GatewaySources {
  readonly settings: Pick<ModelSettings, 'clusterId' | 'domain'>;
  readonly networks: MeshNetworks;
  readonly resolvedHosts: ResolvedHosts;
  readonly resources: ResourceTables<'Service' | 'Node'>;
}

export interface GatewayState {
  readonly networks: MeshNetworks;
  readonly resolvedHosts: ResolvedHosts;
  /** Keys of the Services that were read, whether they exist or not. */
  readonly services: ReadonlySet<ResourceKey>;
  readonly readsNodes: boolean;
  /** The same object until it changes, and so are its members. */
  readonly gateways: NetworkGateways;
  /** The host names that have to be resolved, sorted; the same object until they change. */
  readonly hosts: readonly string[];
  /** One line for each gateway without an address; the same object until they change. */
  readonly problems: readonly string[];
}

/** The gateways before any document is known. */
export function noDocuments(
  settings: GatewaySources['settings'],
  networks: MeshNetworks,
  resources: GatewaySources['resources'],
): GatewayState {
  return stateOf({ settings, networks, resolvedHosts: new Map(), resources });
}

/** @param changed keys of resources that changed */
export function nextNetworkGateways(
  before: GatewayState,
  sources: GatewaySources,
  changed: Iterable<ResourceKey>,
): GatewayState {
  const isSame = before.networks === sources.networks && before.resolvedHosts === sources.resolvedHosts;
  if (isSame && !readsSome(before, changed)) return before;
  const after = stateOf(sources);
  const gateways = new Map(
    [...after.gateways].map(([network, list]) => {
      const known = before.gateways.get(network);
      return [network, deepEqual(known, list) ? (known ?? list) : list];
    }),
  );
  return {
    ...after,
    gateways: networksWithOtherGateways(before.gateways, gateways).length === 0 ? before.gateways : gateways,
    hosts: deepEqual(before.hosts, after.hosts) ? before.hosts : after.hosts,
    problems: deepEqual(before.problems, after.problems) ? before.problems : after.problems,
  };
}

/** The networks whose gateways differ. */
export function networksWithOtherGateways(before: NetworkGateways, after: NetworkGateways): readonly string[] {
  if (before === after) return [];
  const names = new Set([...before.keys(), ...after.keys()]);
  return [...names].filter((name) => before.get(name) !== after.get(name));
}

function readsSome({ services, readsNodes }: GatewayState, changed: Iterable<ResourceKey>): boolean {
  if (services.size === 0) return false;
  for (const key of changed) if (services.has(key) || (readsNodes && key.startsWith('Node/'))) return true;
  return false;
}

function stateOf(sources: GatewaySources): GatewayState {
  const { networks, resolvedHosts } = sources;
  const search = new GatewaySearch(sources);
  const gateways = new Map<string, readonly NetworkGateway[]>();
  for (const name of Object.keys(networks.networks).sort(compareText)) {
    const network = networks.networks[name];
    if (network !== undefined && network.gateways.length > 0) gateways.set(name, search.ofNetwork(name, network));
  }
  const { services, readsNodes, hosts, problems } = search;
  return { networks, resolvedHosts, services, readsNodes, gateways, hosts: [...hosts].sort(compareText), problems };
}

/** Looks up the gateways, and collects what was read and what is missing. */
class GatewaySearch {
  readonly services = new Set<ResourceKey>();
  readonly hosts = new Set<string>();
  readonly problems: string[] = [];
  readsNodes = false;
  readonly #sources: GatewaySources;

  constructor(sources: GatewaySources) {
    this.#sources = sources;
  }

  ofNetwork(name: string, network: MeshNetwork): readonly NetworkGateway[] {
    const missing: string[] = [];
    const found = new Map<string, NetworkGateway>();
    for (const [index, { address, registryServiceName, port }] of network.gateways.entries()) {
      const path = `networks.${name}.gateways[${index}]`;
      const [gateways, problem] =
        address !== undefined ? this.#atHost(address, port) : this.#ofService(network, registryServiceName ?? '', port);
      for (const each of gateways.slice(0, MAX_GATEWAYS)) found.set(`${each.address} ${each.port}`, each);
      const field = `${path}.${address === undefined ? 'registryServiceName' : 'address'}`;
      if (problem !== undefined) missing.push(`${field}: ${problem}`);
      if (gateways.length > MAX_GATEWAYS) this.problems.push(`${field}: ${tooMany(gateways.length)}`);
    }
    const effect = found.size === 0 ? `; proxies of other networks do not reach the endpoints of network ${name}` : '';
    this.problems.push(...missing.map((problem) => problem + effect));
    return [...found.values()];
  }

  /** EDS only supports addresses, so a host name is replaced by its addresses. */
  #atHost(written: string, port: number): Found {
    if (isIpAddress(written)) return [[{ address: written, port }]];
    const host = canonicalHost(written);
    if (!isDnsSubdomain(host)) return [[], `expected an IP address or a host name, got ${shown(written)}`];
    if (!this.hosts.has(host) && this.hosts.size >= MAX_GATEWAY_HOSTS)
      return [[], `${host} is not resolved: there are more than ${MAX_GATEWAY_HOSTS} host names of gateways`];
    this.hosts.add(host);
    const addresses = this.#sources.resolvedHosts.get(host);
    if (addresses?.length === 0) return [[], `host name ${host} has no address`];
    return [(addresses ?? []).map((address) => ({ address, port }))];
  }

  #ofService(network: MeshNetwork, host: string, port: number): Found {
    const { domain } = this.#sources.settings;
    const suffix = `.svc.${domain}`;
    const [name, namespace, ...more] = canonicalHost(host).slice(0, -suffix.length).split('.');
    if (!canonicalHost(host).endsWith(suffix) || !name || !namespace || more.length > 0)
      return [[], `expected a Service, as <name>.<namespace>${suffix}, got ${shown(host)}`];
    const registries = network.endpoints.flatMap(({ fromRegistry }) => fromRegistry ?? []);
    if (registries.length === 0)
      return [[], `expected a cluster (endpoints[].fromRegistry) in which to look up the Service ${host}`];
    const problems: string[] = [];
    const found = [...new Set(registries)].flatMap((cluster) => {
      const [gateways, problem] = this.#inCluster(cluster, namespace, name, port);
      if (problem !== undefined) problems.push(problem);
      return gateways;
    });
    return problems.length === 0 ? [found] : [found, problems.join('; ')];
  }

  #inCluster(registry: string, namespace: string, name: string, port: number): Found {
    const { settings, resources } = this.#sources;
    const cluster = registry === settings.clusterId ? undefined : registry;
    const key = resourceKey('Service', namespace, name, cluster);
    this.services.add(key);
    const service = tableOf(resources, 'Service').get(key);
    const where = `Service ${namespace}/${name} of cluster ${registry}`;
    if (service === undefined) return [[], `there is no ${where}`];
    const nodePort = nodeGateways(service);
    if (nodePort !== undefined) {
      this.readsNodes = true;
      const own = service.content.spec.ports?.find((each) => each.port === port)?.nodePort ?? port;
      const addresses = this.#nodeAddresses(nodePort, cluster);
      if (addresses.length === 0) return [[], `no node that the ${where} selects has an external address`];
      return [addresses.map((address) => ({ address, port: own }))];
    }
    const written = externalAddresses(service);
    if (written.length === 0) return [[], `the ${where} has no external address`];
    const parts = written.slice(0, MAX_GATEWAYS).map((each) => this.#atHost(each, port));
    const problems = parts.flatMap(([, problem]) => problem ?? []);
    if (written.length > MAX_GATEWAYS) problems.push(`${where}: ${tooMany(written.length)}`);
    const gateways = parts.flatMap(([each]) => each);
    return problems.length === 0 ? [gateways] : [gateways, problems.join('; ')];
  }

  #nodeAddresses(selector: Readonly<Record<string, string>>, cluster: string | undefined): readonly string[] {
    const nodes = [...tableOf(this.#sources.resources, 'Node').sorted()].filter(
      ([, { meta }]) => meta.cluster === cluster && labelsMatch(selector, meta.labels),
    );
    return nodes.flatMap(([, { content }]) =>
      (content.status?.addresses ?? []).filter(isExternal).map(({ address }) => address),
    );
  }
}

/** Gateways, and why some are missing. */
type Found = readonly [gateways: readonly NetworkGateway[], problem?: string];

function isExternal({ type, address }: { readonly type: string; readonly address: string }): boolean {
  return type === 'ExternalIP' && isIpAddress(address);
}

/** The labels of the nodes through which a Service of type NodePort is reached; undefined for all others. */
function nodeGateways({ meta, content }: Resource<'Service'>): Readonly<Record<string, string>> | undefined {
  if (content.spec.type !== 'NodePort') return undefined;
  const written = meta.annotations[NODE_SELECTOR];
  if (written === undefined) return undefined;
  const labels = parsedJson(written);
  if (typeof labels !== 'object' || labels === null) return undefined;
  const entries = Object.entries(labels as Readonly<Record<string, unknown>>);
  const texts = entries.flatMap(([name, value]) => (typeof value === 'string' ? [[name, value] as const] : []));
  return texts.length === entries.length ? Object.fromEntries(texts) : undefined;
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function externalAddresses({ content: { spec, status } }: Resource<'Service'>): readonly string[] {
  const ingress = spec.type === 'LoadBalancer' ? (status?.loadBalancer?.ingress ?? []) : [];
  return [...new Set([...ingress.flatMap(({ ip, hostname }) => ip ?? hostname ?? []), ...(spec.externalIPs ?? [])])];
}

function tooMany(count: number): string {
  return `of ${count} addresses, the first ${MAX_GATEWAYS} are used`;
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 80));
}
