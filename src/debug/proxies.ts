/** Debug pages about connected proxies: what each was sent and acknowledged, in the format of existing mesh tools. */
import { XDS, XDS_TYPES, type XdsType } from '../core/xds-types.ts';
import { toShownJson } from '../protobuf/index.ts';
import { type ConnectionStatus, type EncodedResource, resourceMessage, type TypeStatus } from '../push/index.ts';
import { shownConfiguration } from './held.ts';
import type { SyncState } from './shapes.ts';
import type { Viewed } from './viewed.ts';

/** A list whose items are computed when they are serialized. */
export function* lazyList<T>(items: Iterable<T>, one: (item: T) => unknown): Generator<unknown> {
  for (const item of items) yield one(item);
}

/** SYNCED: the last response is acknowledged and nothing is rejected. */
export function stateOf(status: TypeStatus | undefined): SyncState {
  if (status?.resumedUpToDate === true) return 'SYNCED';
  if (status === undefined || status.nonceSent === '') return 'NOT SENT';
  if (status.lastNack !== undefined && status.quarantined.size > 0) return 'REJECTED';
  return effectiveNonce(status) === status.nonceAcked ? 'SYNCED' : 'STALE';
}

/**
 * The nonce of the last response that describes what the proxy should have. A rejected response does not count when
 * everything in it was reset to the state of the proxy: then the response before it is the effective one.
 */
function effectiveNonce(status: TypeStatus): string {
  const { nonceSent, nonceAcked, nonceNacked, lastNack, quarantined } = status;
  const reset = nonceSent === nonceNacked && quarantined.size === 0 && lastNack?.resources.length !== 0;
  return reset ? nonceAcked : nonceSent;
}

/** One entry of `/debug/syncz`: nonces by the names of existing tools, with `*_state` and rejections. */
export function syncStatus(mesh: Viewed, connection: ConnectionStatus): Record<string, unknown> {
  const { node } = connection;
  const line: Record<string, unknown> = {
    proxy: node.workload,
    id: node.id,
    proxy_type: node.type,
    cluster_id: node.clusterId,
    istio_version: node.meshVersion === '' ? node.version : node.meshVersion,
    discovery: mesh.replica,
    configuration: shownConfiguration(connection, mesh.configurationOf(connection)),
  };
  for (const type of XDS_TYPES) {
    const status = connection.types.get(type);
    // Existing tools know the types that are not optional. Others are shown when the proxy subscribes to them.
    if (XDS[type].optional && (status === undefined || status.subscribed === 'none')) continue;
    const name = XDS[type].noun;
    line[`${name}_sent`] = status === undefined ? '' : effectiveNonce(status);
    line[`${name}_acked`] = status?.nonceAcked ?? '';
    line[`${name}_state`] = stateOf(status);
    if (status?.lastNack !== undefined) {
      const { message, resources } = status.lastNack;
      line[`${name}_rejected`] = {
        message,
        resources,
        quarantined: Object.fromEntries(status.quarantined),
        ...(type === 'eds' && clustersNamed(mesh, connection, new Set(resources))),
      };
    }
  }
  return line;
}

function typeSummary(status: TypeStatus): Record<string, unknown> {
  const { lastNack, quarantined, ...counts } = status;
  return { ...counts, quarantined: Object.fromEntries(quarantined), ...(lastNack === undefined ? {} : { lastNack }) };
}

/** `/debug/adsz`: every stream, with CTL_DEBUG_ADSZ_CONFIG also its configuration. */
export function adsz(mesh: Viewed, connections: readonly ConnectionStatus[]): Record<string, unknown> {
  const clients = lazyList(connections, (connection) => ({
    connectionId: connection.connectionId,
    proxy: connection.node.id,
    connectedAt: new Date(connection.connectedAtMs).toISOString(),
    address: connection.peer,
    protocol: connection.mode,
    labels: connection.node.labels,
    labelsOf: connection.node.labelsOf ?? 'node',
    watches: Object.fromEntries([...connection.types].map(([type, status]) => [XDS[type].url, typeSummary(status)])),
    ...(mesh.showConfigInAdsz ? { config: configDump(mesh, connection) } : {}),
  }));
  return { totalClients: connections.length, clients };
}

/** Resources of one type that a connection should have now, in order of their parts. */
export function resourcesOf(mesh: Viewed, connection: ConnectionStatus, type: XdsType): EncodedResource[] {
  return mesh.parts(connection, type).flatMap((bundle) => [...bundle.resources()]);
}

/** Names of clusters by the names of their endpoints, if these differ, as they do with State of the World. */
export function clustersByEndpoints(mesh: Viewed, connection: ConnectionStatus): Record<string, string> {
  const named = resourcesOf(mesh, connection, 'cds').flatMap(({ name, refs }) =>
    refs.flatMap((ref) => (ref === name ? [] : [[ref, name] as const])),
  );
  return Object.fromEntries(named);
}

/** `clusters` as in `edsz`, for these endpoints. */
function clustersNamed(mesh: Viewed, connection: ConnectionStatus, endpoints: ReadonlySet<string>) {
  const named = Object.entries(clustersByEndpoints(mesh, connection)).filter(([name]) => endpoints.has(name));
  return named.length > 0 && { clusters: Object.fromEntries(named) };
}

/** The message as JSON without secrets. */
export function decoded(type: XdsType, resource: EncodedResource): unknown {
  const name = XDS[type].message;
  return toShownJson(name, resourceMessage(resource));
}

/** A table in pieces is shown as one: a message is the concatenation of its fields. */
export function nameTables(mesh: Viewed, connection: ConnectionStatus): unknown[] {
  const pieces = resourcesOf(mesh, connection, 'nds');
  return pieces.length === 0 ? [] : [toShownJson(XDS.nds.message, Buffer.concat(pieces.map(resourceMessage)))];
}

function typed(type: XdsType, resource: EncodedResource): Record<string, unknown> {
  return { '@type': XDS[type].url, ...(decoded(type, resource) as Record<string, unknown>) };
}

/** The virtual hosts from VHDS of a route configuration. */
export function hostsOf(hosts: readonly EncodedResource[], name: string): EncodedResource[] {
  return hosts.filter((host) => host.name.slice(0, host.name.lastIndexOf('/')) === name);
}

/** A route configuration with its virtual hosts from VHDS, as Envoy shows it. */
function withHosts(
  config: Record<string, unknown>,
  name: string,
  hosts: readonly EncodedResource[],
): Record<string, unknown> {
  const own = hostsOf(hosts, name);
  return own.length === 0 ? config : { ...config, virtualHosts: lazyList(own, (host) => decoded('vhds', host)) };
}

/**
 * `/debug/config_dump`: what the proxy should have, in the format of Envoy's /config_dump.
 * @param isAskable what it may ask for and does not hold, instead; route configurations then have such virtual hosts
 */
export function configDump(mesh: Viewed, connection: ConnectionStatus, isAskable = false): Record<string, unknown> {
  const listed = (type: XdsType): readonly EncodedResource[] =>
    isAskable && type !== 'rds' ? mesh.askable(connection, type) : resourcesOf(mesh, connection, type);
  const dump = (type: XdsType, one: (resource: EncodedResource) => unknown) => lazyList(listed(type), one);
  const hosts = listed('vhds');
  const { id, clusterId, namespace } = connection.node;
  return {
    configs: [
      {
        '@type': 'type.googleapis.com/envoy.admin.v3.BootstrapConfigDump',
        // The rest of its bootstrap is known to the proxy alone.
        bootstrap: { node: { id, metadata: { CLUSTER_ID: clusterId, NAMESPACE: namespace } } },
      },
      {
        '@type': 'type.googleapis.com/envoy.admin.v3.ClustersConfigDump',
        dynamic_active_clusters: dump('cds', (r) => ({ version_info: r.version, cluster: typed('cds', r) })),
      },
      {
        '@type': 'type.googleapis.com/envoy.admin.v3.ListenersConfigDump',
        dynamic_listeners: dump('lds', (r) => ({
          name: r.name,
          active_state: { version_info: r.version, listener: typed('lds', r) },
        })),
      },
      {
        '@type': 'type.googleapis.com/envoy.admin.v3.RoutesConfigDump',
        dynamic_route_configs: dump('rds', (r) => ({
          version_info: r.version,
          route_config: withHosts(typed('rds', r), r.name, hosts),
        })),
      },
      {
        '@type': 'type.googleapis.com/envoy.admin.v3.EndpointsConfigDump',
        dynamic_endpoint_configs: dump('eds', (r) => ({
          version_info: r.version,
          endpoint_config: typed('eds', r),
        })),
      },
      {
        '@type': 'type.googleapis.com/envoy.admin.v3.SecretsConfigDump',
        dynamic_active_secrets: dump('sds', (r) => ({
          name: r.name,
          version_info: r.version,
          secret: typed('sds', r),
        })),
      },
      {
        '@type': 'type.googleapis.com/envoy.admin.v3.EcdsConfigDump',
        ecds_filters: dump('ecds', (r) => ({ version_info: r.version, ecds_filter: typed('ecds', r) })),
      },
    ],
  };
}
