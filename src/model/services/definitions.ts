/**
 * Derives services from the resources that define them: a Service defines one, a ServiceEntry one for each host.
 * Several definitions of a service are merged here.
 */
import { type AnyResource, keyOf, type MeshConfig, type Resource } from '../../resources/index.ts';
import { canonicalHost, isWildcardHost, serviceHostname } from '../common/hosts.ts';
import { isIpAddress } from '../common/networks.ts';
import { compareCreated, compareText } from '../common/order.ts';
import { parseProtocol, protocolOfPort } from '../common/protocol.ts';
import { normaliseExportTo } from '../common/visibility.ts';
import type { ModelSettings, Resolution, Service, ServiceKey, ServicePort } from '../types/types.ts';
import { mayClaimForOthers, ownCallersOnly } from './ownership.ts';
import { clusterIps } from './virtual-ips.ts';

/** What definitions read in addition to their own resource. */
export interface DefinitionContext {
  readonly settings: ModelSettings;
  readonly mesh: MeshConfig;
}

/**
 * Creation time of Services that only exist in remote clusters: later than all others, so that all definitions of the
 * program's own cluster take precedence.
 */
const AFTER_ALL = Number.MAX_SAFE_INTEGER;

const EXPORT_TO = 'networking.mesh.io/exportTo';

export function serviceKey(namespace: string, hostname: string): ServiceKey {
  return `${namespace}/${hostname}`;
}

/** Key of the service that an orchestrator Service (or its Endpoints) of this name defines. */
export function orchestratorServiceKey(namespace: string, name: string, settings: ModelSettings): ServiceKey {
  return serviceKey(namespace, serviceHostname(name, namespace, settings.domain));
}

/** Keys of the services that a resource defines, each once. */
export function definedKeys(resource: AnyResource | undefined, settings: ModelSettings): readonly ServiceKey[] {
  if (resource?.kind === 'Service') {
    return [orchestratorServiceKey(resource.meta.namespace, resource.meta.name, settings)];
  }
  if (resource?.kind !== 'ServiceEntry') return [];
  const hosts = new Set(resource.content.hosts.map(canonicalHost));
  return [...hosts].map((host) => serviceKey(resource.meta.namespace, host));
}

export function definitionOf(
  resource: Resource<'Service'> | Resource<'ServiceEntry'>,
  key: ServiceKey,
  context: DefinitionContext,
): Service {
  return resource.kind === 'Service'
    ? orchestratorService(resource as Resource<'Service'>, key, context)
    : externalService(resource as Resource<'ServiceEntry'>, key, context);
}

function orchestratorService(resource: Resource<'Service'>, key: ServiceKey, context: DefinitionContext): Service {
  const { meta, content } = resource;
  const { spec } = content;
  const external = spec.type === 'ExternalName' ? spec.externalName : undefined;
  const headless = external === undefined && spec.clusterIP === 'None';
  const exportTo = meta.annotations[EXPORT_TO]?.split(',').flatMap((name) => name.trim() || []);
  return {
    key,
    hostname: serviceHostname(meta.name, meta.namespace, context.settings.domain),
    namespace: meta.namespace,
    ports: (spec.ports ?? []).flatMap((port): ServicePort[] => {
      const name = port.name ?? '';
      // Envoy proxies TCP. UDP ports are kept because they are part of the service; SCTP ports are not used.
      if (port.protocol === 'SCTP') return [];
      const protocol = port.protocol === 'UDP' ? 'UDP' : protocolOfPort(port.port, name, port.appProtocol);
      return [{ name, port: port.port, protocol }];
    }),
    addresses: clusterIps(resource),
    resolution: external !== undefined ? 'dns' : headless ? 'passthrough' : 'eds',
    headless,
    ...(external === undefined ? {} : { externalName: external }),
    meshExternal: false,
    exportTo: normaliseExportTo(exportTo, context.mesh.defaultServiceExportTo, meta.namespace),
    labels: meta.labels,
    subjectAltNames: [],
    registry: 'Orchestrator',
    shortName: meta.name,
    source: keyOf(resource),
    created: meta.cluster === undefined ? meta.created : AFTER_ALL,
  };
}

function externalService(resource: Resource<'ServiceEntry'>, key: ServiceKey, context: DefinitionContext): Service {
  const { meta, content } = resource;
  const hostname = key.slice(meta.namespace.length + 1);
  const exportTo = normaliseExportTo(content.exportTo, context.mesh.defaultServiceExportTo, meta.namespace);
  return {
    key,
    hostname,
    namespace: meta.namespace,
    ports: entryPorts(resource).map(({ name, port, protocol }) => ({ name, port, protocol })),
    addresses: content.addresses ?? [],
    resolution: resolutionOfHost(resource, hostname),
    headless: false,
    // Absent means MESH_EXTERNAL: it is the first value of the enumeration.
    meshExternal: content.location !== 'MESH_INTERNAL',
    exportTo: mayClaimForOthers(hostname, meta.namespace, context) ? exportTo : ownCallersOnly(exportTo),
    labels: meta.labels,
    subjectAltNames: content.subjectAltNames ?? [],
    registry: 'External',
    source: keyOf(resource),
    created: meta.created,
  };
}

export interface EntryPort extends ServicePort {
  readonly targetPort: number;
}

/**
 * Ports of a service entry. A single port may have no name; among several, one without a name is named by its number.
 */
export function entryPorts(resource: Resource<'ServiceEntry'>): readonly EntryPort[] {
  const ports = resource.content.ports ?? [];
  return ports.flatMap((port): EntryPort[] => {
    if (port.number === undefined) return [];
    const name = port.name ?? (ports.length > 1 ? String(port.number) : '');
    const protocol = parseProtocol(port.protocol) === 'UDP' ? 'UDP' : protocolOfPort(port.number, name, port.protocol);
    return [{ name, port: port.number, protocol, targetPort: port.targetPort ?? port.number }];
  });
}

/** The resolution of a service entry; if it is not set and there are endpoints, the endpoints decide. */
export function entryResolution(resource: Resource<'ServiceEntry'>): Resolution {
  const { resolution, endpoints, workloadSelector } = resource.content;
  switch (resolution) {
    case 'STATIC':
      return 'eds';
    case 'DNS':
    case 'DNS_ROUND_ROBIN':
    // A host without a wildcard has only one name: see `resolutionOfHost`.
    case 'DYNAMIC_DNS':
      return 'dns';
    case 'NONE':
      return 'passthrough';
    default: {
      if (workloadSelector !== undefined) return 'eds';
      if (endpoints === undefined || endpoints.length === 0) return 'passthrough';
      const named = endpoints.some(({ address }) => address !== undefined && !isSocketOrIp(address));
      return named ? 'dns' : 'eds';
    }
  }
}

/** Only for wildcards do clients decide which name is resolved. */
function resolutionOfHost(resource: Resource<'ServiceEntry'>, hostname: string): Resolution {
  const dynamic = resource.content.resolution === 'DYNAMIC_DNS' && isWildcardHost(hostname);
  return dynamic ? 'dynamic' : entryResolution(resource);
}

function isSocketOrIp(address: string): boolean {
  return address.startsWith('unix:') || isIpAddress(address);
}

export interface MergedService {
  readonly service: Service;
  /** For each definition that contributes: its port number → the port's name in the service. */
  readonly parts: readonly { readonly source: string; readonly portNames: ReadonlyMap<number, string> }[];
  /** Number of ports that several definitions have: `ctl_duplicate_proxy_clusters`. */
  readonly duplicates: number;
}

/**
 * Several resources of one namespace may define the same host. The own cluster's Service takes precedence, then the
 * oldest service entry, then a Service of another cluster: the first defines the service. The others add missing ports,
 * their addresses, and endpoints. Definitions with another resolution are ignored, because a cluster has only one.
 */
export function mergeDefinitions(definitions: readonly Service[]): MergedService | undefined {
  const [first, ...others] = [...definitions].sort(compareDefinitions);
  if (first === undefined) return undefined;
  const ports = [...first.ports];
  const addresses = new Set(first.addresses);
  const ofFirst = new Map(first.ports.filter(isServed).map((port) => [port.port, port.name]));
  const parts = [{ source: first.source, portNames: ofFirst }];
  let duplicates = 0;
  for (const other of others) {
    if (other.resolution !== first.resolution) {
      duplicates += other.ports.length;
      continue;
    }
    const portNames = new Map<number, string>();
    for (const port of other.ports.filter(isServed)) {
      const same = ports.find((known) => known.port === port.port && isServed(known));
      if (same !== undefined) duplicates++;
      else if (ports.some((known) => known.name === port.name)) continue;
      else ports.push(port);
      portNames.set(port.port, same?.name ?? port.name);
    }
    for (const address of other.addresses) addresses.add(address);
    parts.push({ source: other.source, portNames });
  }
  if (others.length === 0) return { service: first, parts, duplicates };
  return { service: { ...first, ports, addresses: [...addresses] }, parts, duplicates };
}

/** Services of the program's own cluster, service entries, Services that only other clusters have. */
function rankOf({ registry, created }: Service): number {
  if (registry === 'External') return 1;
  return created === AFTER_ALL ? 2 : 0;
}

function compareDefinitions(a: Service, b: Service): number {
  const order = rankOf(a) - rankOf(b);
  if (order !== 0) return order;
  return compareCreated(a.created, b.created) || compareText(a.source, b.source);
}

/** UDP ports are part of a service, but proxies do not serve them. */
function isServed(port: ServicePort): boolean {
  return port.protocol !== 'UDP';
}
