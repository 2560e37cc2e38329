/** The sources that the flags configure, and the other clusters. */
import { getHeapStatistics } from 'node:v8';
import { systemClock } from '../../core/clock.ts';
import type { Log } from '../../core/log.ts';
import type { Connection } from '../../kubernetes/index.ts';
import { getScope } from '../../logging/index.ts';
import { changedEndpoints } from '../../model/index.ts';
import {
  type AnyResource,
  CLUSTER_KINDS,
  documentLimits,
  keyOf,
  type ResourceChange,
  type ResourceEvent,
  type ResourceKey,
} from '../../resources/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import {
  applyInSlices,
  createConsulSource,
  createDirectorySource,
  createKubernetesSource,
  createMockSource,
  type DirectorySourceOptions,
  type KubernetesSourceOptions,
  pacedSource,
  ReadingShares,
  type Source,
} from '../../sources/index.ts';
import { createConnection } from '../clusters/cluster.ts';
import { NO_REMOTES, RemoteClusters, type RemoteClustersOptions, type Remotes } from '../clusters/remote-clusters.ts';
import { extRegistrySettings } from '../config/ext-registry.ts';
import type { Sources } from '../config/sources.ts';

/** The document in force. */
type InForce = (key: ResourceKey) => AnyResource | undefined;

function changeBy(after: AnyResource, inForce: InForce): ResourceChange {
  const key = keyOf(after);
  return { key, before: inForce(key), after };
}

/**
 * The sources in the order of `--registries`. A directory that is not a registry (only configuration is read from it)
 * comes first.
 * @param connection to the cluster; undefined when no cluster is read
 * @param namespaces that are read from the cluster; empty: all
 * @param serves which Ingresses and Gateways of the cluster belong to the mesh (without `servesIngress` no Ingress is
 *   read), and who learns of documents that are not read
 * @param inForce the documents of all sources; default: none
 */
export function configuredSources(
  settings: DiscoverySettings,
  connection: Connection | undefined,
  { namespaces, rootNamespace }: { readonly namespaces: readonly string[]; readonly rootNamespace: string },
  serves: Pick<KubernetesSourceOptions, 'onAccess' | 'servesGateway' | 'servesIngress'> &
    Pick<DirectorySourceOptions, 'onIgnored'>,
  inForce: InForce = () => undefined,
): Source[] {
  const { configDir, registries, clusterID: cluster, resyncMs, useEndpointSlice, serviceApis } = settings;
  const limits = documentLimits(settings.documentLimitFactor, settings.virtualServiceDelegates, rootNamespace);
  const log = getScope('source');
  if (configDir === '' && connection === undefined) log.warn(`no --configDir: only ${registries.join(', ')} is read`);
  const clock = systemClock;
  const shares = new ReadingShares(clock.now);
  const { onIgnored, ...served } = serves;
  const directory = (): Source[] => {
    if (configDir === '') return [];
    const options = { dir: configDir, cluster, log, clock, resyncMs, serviceApis, limits, shares };
    const source = createDirectorySource(onIgnored === undefined ? options : { ...options, onIgnored });
    return registries.includes('Orchestrator') && connection === undefined ? [source] : [withoutRegistry(source)];
  };
  const orchestrator = (): Source[] => {
    if (connection === undefined) return directory();
    const meshKinds = configDir === '';
    const kinds = { useEndpointSlice, meshKinds, serviceApis };
    const options = { cluster, connection, log, clock, resyncMs, namespaces, limits, shares, ...kinds };
    return [...directory(), createKubernetesSource({ ...options, ...served })];
  };
  const externalRegistry = (): Source => {
    const options = { ...extRegistrySettings(settings), cluster, log, clock, random: Math.random, limits };
    // A registry in which something changes all the time must not delay the changes of other sources.
    const isOfEndpoints = (event: ResourceEvent): boolean =>
      event.type === 'set' && changedEndpoints(changeBy(event.resource, inForce)) !== undefined;
    return pacedSource(createConsulSource(options), { clock, log, name: 'Consul', isOfEndpoints });
  };
  const sources = registries.flatMap((registry) => {
    if (registry === 'Orchestrator') return orchestrator();
    return [registry === 'Mock' ? createMockSource({ cluster, clock }) : externalRegistry()];
  });
  return registries.includes('Orchestrator') ? sources : [...directory(), ...sources];
}

/** Share of the heap limit for the objects of another cluster; derived data makes them about three times as large. */
const REMOTE_SHARE = 1 / 8;

/**
 * The clusters that Secrets of the program's own cluster give access to.
 * @param namespaces that are read of each; empty: all
 */
export function configuredRemotes(
  settings: DiscoverySettings,
  connection: Connection | undefined,
  namespaces: readonly string[],
  { sources, onDelayed }: Pick<RemoteClustersOptions, 'onDelayed'> & { readonly sources: Sources },
): Remotes {
  const { resyncMs, useEndpointSlice, clusterRegistriesNamespace: namespace } = settings;
  if (connection === undefined || namespace === '') return NO_REMOTES;
  const clock = systemClock;
  const maxBytes = Math.floor(getHeapStatistics().heap_size_limit * REMOTE_SHARE);
  return new RemoteClusters({
    connection,
    namespace,
    cluster: settings.clusterID,
    sources,
    connect: createConnection,
    createSource: (id, cluster, connection, required) => {
      const log = prefixed(getScope('source'), `cluster ${cluster}: `);
      const options = { id, cluster, connection, log, clock, resyncMs, namespaces, useEndpointSlice };
      return createKubernetesSource({ ...options, meshKinds: false, isRemote: true, required, maxBytes });
    },
    onDelayed,
    clock,
    log: getScope('secretcontroller'),
  });
}

function prefixed(log: Log, prefix: string): Log {
  return {
    debug: (message, fields) => log.debug(`${prefix}${message}`, fields),
    info: (message, fields) => log.info(`${prefix}${message}`, fields),
    warn: (message, fields) => log.warn(`${prefix}${message}`, fields),
    error: (message, fields) => log.error(`${prefix}${message}`, fields),
  };
}

/** A source without the kinds of the Orchestrator registry, for a directory that is not that registry. */
export function withoutRegistry(source: Source): Source {
  const isRead = (event: ResourceEvent): boolean => {
    const key = event.type === 'set' ? `${event.resource.kind}/` : event.type === 'delete' ? event.key : '';
    return !CLUSTER_KINDS.some((kind) => key.startsWith(`${kind}/`));
  };
  return {
    id: source.id,
    cluster: source.cluster,
    synced: source.synced,
    health: () => source.health(),
    close: () => source.close(),
    start: (sink) =>
      source.start({
        apply: (events, seenAt) => sink.apply(events.filter(isRead), seenAt),
        applyInSlices: (events, seenAt) => applyInSlices(sink, events.filter(isRead), seenAt),
        replace: (list, seenAt) => sink.replace({ ...list, events: list.events.filter(isRead) }, seenAt),
        changing: (at) => sink.changing(at),
      }),
  };
}
