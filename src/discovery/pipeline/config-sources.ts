/** The sources that `configSources` of the mesh configuration names, in its order. */
import { getHeapStatistics } from 'node:v8';
import { systemClock } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import { isLoopbackAddress } from '../../core/network/loopback.ts';
import type { Connection } from '../../kubernetes/index.ts';
import { getScope } from '../../logging/index.ts';
import type { Metrics } from '../../observe/index.ts';
import {
  type ConfigSourceSettings,
  documentLimits,
  type MeshConfig,
  parseConfigSource,
} from '../../resources/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import {
  createDirectorySource,
  createPeerSource,
  type MeshCertificate,
  namedSource,
  pacedSource,
  type Source,
} from '../../sources/index.ts';
import { rootNamespaceOf } from '../config/model-settings.ts';
import { withoutRegistry } from './inputs.ts';

export interface ConfigSourcesOptions {
  readonly settings: DiscoverySettings;
  /** The mesh configuration at startup. */
  readonly mesh: MeshConfig;
  readonly metrics: Metrics;
  /** The connection to the cluster; undefined if no cluster is read. */
  readonly connection: Connection | undefined;
  /** The certificate of this control plane; undefined if it has none. */
  readonly certificate: Promise<MeshCertificate | undefined>;
}

/**
 * Share of the heap limit for the documents of all other control planes together; derived data makes them about three
 * times as large.
 */
const SHARE = 1 / 8;

/** Whether a source is another control plane. */
export function isPeer(source: string): boolean {
  return source.startsWith('mcp://') || source.startsWith('xds://');
}

/** Throws CtlError for an address that nothing can be read from in this deployment. */
export function openConfigSources(options: ConfigSourcesOptions): Source[] {
  return options.mesh.configSources.flatMap((source, index) => openConfigSource(source, index, options) ?? []);
}

/** Undefined for the cluster, which is read as a registry. */
function openConfigSource(
  { address, tlsSettings }: ConfigSourceSettings,
  index: number,
  options: ConfigSourcesOptions,
): Source | undefined {
  const { settings, mesh, metrics, certificate } = options;
  const { clusterID: cluster, resyncMs } = settings;
  const limits = documentLimits(
    settings.documentLimitFactor,
    settings.virtualServiceDelegates,
    rootNamespaceOf(settings, mesh),
  );
  const where = parseConfigSource(address);
  if (where === undefined) throw refused(index, `${address} cannot be read`);
  if (where.kind === 'cluster') {
    if (options.connection !== undefined && settings.configDir === '') return undefined;
    throw refused(index, 'k8s:// needs the registry Orchestrator with a cluster, without --configDir');
  }
  if (where.kind === 'directory') {
    const read = { dir: where.directory, cluster, log: getScope('source'), clock: systemClock, resyncMs, limits };
    return namedSource(withoutRegistry(createDirectorySource(read)), address);
  }
  const { kind: protocol, host, port } = where;
  const log = getScope(protocol === 'mcp' ? 'mcp' : 'source');
  const id = protocol === 'mcp' ? `mcp://${address}` : address;
  const isPlain = (tlsSettings?.mode ?? 'DISABLE') === 'DISABLE';
  if (isPlain && host !== 'localhost' && !isLoopbackAddress(host))
    log.warn(`${id} is read in plain text, so any server at its address can define policies; set tlsSettings`);
  const source = createPeerSource({
    ...{ id, cluster, protocol, host, port, limits, certificate, log },
    tls: tlsSettings,
    namespace: settings.namespace,
    incremental: settings.incrementalMcp,
    maxMessageBytes: settings.mcpMaxMsgSize,
    streamWindow: settings.mcpInitialWindowSize,
    connectionWindow: settings.mcpInitialConnWindowSize,
    keepaliveMs: settings.keepaliveIntervalMs,
    keepaliveTimeoutMs: settings.keepaliveTimeoutMs,
    maxBytes: memoryOfEach(mesh.configSources, getHeapStatistics().heap_size_limit),
    onReconnect: () => metrics.mesh_mcp_reconnections.inc(),
    clock: systemClock,
    random: Math.random,
  });
  return pacedSource(source, { clock: systemClock, log, name: id });
}

/** Maximum memory of the documents of each control plane, bytes: they share equally, so that none displaces another. */
export function memoryOfEach(sources: readonly ConfigSourceSettings[], heapLimit: number): number {
  const kinds = sources.map(({ address }) => parseConfigSource(address)?.kind);
  const peers = kinds.filter((kind) => kind === 'mcp' || kind === 'xds').length;
  return Math.floor((heapLimit * SHARE) / Math.max(1, peers));
}

function refused(index: number, message: string): CtlError {
  return new CtlError('invalid_argument', message, { field: `configSources[${index}].address` });
}
