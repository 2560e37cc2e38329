/** The sources of the program: the configured ones, and those that are added while it runs. */
import { systemClock } from '../core/clock.ts';
import { CtlError, InternalError } from '../core/errors.ts';
import type { SourceStatus } from '../debug/index.ts';
import type { Connection } from '../kubernetes/index.ts';
import { getScope } from '../logging/index.ts';
import { CLUSTER_KINDS, type ResourceEvent } from '../resources/index.ts';
import type { DiscoverySettings } from '../settings/index.ts';
import {
  createDirectorySource,
  createKubernetesSource,
  createMockSource,
  type Source,
  type SourceIdentity,
  type SourceSink,
} from '../sources/index.ts';

/** The handlers of what sources do. */
export interface SourceHandlers {
  /** Returns the sink of a source. Called before the source is started. */
  sinkOf(source: SourceIdentity): SourceSink;
  /** A source is removed, with everything that it reported. */
  removed(source: SourceIdentity): void;
}

/** The sources of the program: the configured ones in their order, and those that are added while it runs. */
export interface Sources {
  /**
   * Starts the configured sources. Resolves when each has been read once; it waits for a configuration directory that
   * does not exist yet. Rejects with CtlError when an existing input cannot be read. Called once, before `add` and
   * `remove`.
   */
  open(handlers: SourceHandlers): Promise<void>;
  /**
   * Starts another source. Resolves when it has been read once. A source with the same id is closed first; its
   * resources stay in force until the new source has listed its own. Rejects with CtlError when the source cannot be
   * read, or when it is of another cluster than the source before.
   */
  add(source: Source): Promise<void>;
  /** Closes a source and removes everything that it reported. Does nothing for an unknown id. */
  remove(id: string): Promise<void>;
  /** The configured sources. */
  readonly all: readonly SourceIdentity[];
  status(): readonly SourceStatus[];
  close(): Promise<void>;
}

/**
 * The sources in the order of `--registries`. A directory that is not a registry (only configuration is read from it)
 * comes first.
 * @param connection to the cluster; undefined when no cluster is read
 * @param namespaces that are read from the cluster; empty: all
 */
export function configuredSources(
  settings: DiscoverySettings,
  connection: Connection | undefined,
  namespaces: readonly string[],
): Source[] {
  const { configDir, registries, clusterID: cluster, resyncMs, useEndpointSlice } = settings;
  const log = getScope('source');
  if (configDir === '' && connection === undefined) log.warn('no --configDir: only built-in registries are read');
  const clock = systemClock;
  const directory = (): Source[] => {
    if (configDir === '') return [];
    const source = createDirectorySource({ dir: configDir, cluster, log, clock, resyncMs });
    return registries.includes('Orchestrator') && connection === undefined ? [source] : [withoutRegistry(source)];
  };
  const orchestrator = (): Source[] => {
    if (connection === undefined) return directory();
    const meshKinds = configDir === '';
    const random = Math.random;
    const options = { cluster, connection, log, clock, random, resyncMs, namespaces, useEndpointSlice, meshKinds };
    return [...directory(), createKubernetesSource(options)];
  };
  const sources = registries.flatMap((registry) => {
    if (registry === 'Orchestrator') return orchestrator();
    return registry === 'Mock' ? [createMockSource({ cluster, clock })] : [];
  });
  return registries.includes('Orchestrator') ? sources : [...directory(), ...sources];
}

/** Throws InternalError when two sources have the same id. */
export function createSources(configured: readonly Source[]): Sources {
  const sources = new Map(configured.map((source) => [source.id, source]));
  if (sources.size < configured.length) throw new InternalError('two sources have one id');
  const synced = new WeakSet<Source>();
  let handlers: SourceHandlers | undefined;

  const start = async (source: Source): Promise<void> => {
    if (handlers === undefined) throw new InternalError('sources are added once the configured ones are opened');
    sources.set(source.id, source);
    source.start(handlers.sinkOf(source));
    await source.synced;
    synced.add(source);
  };

  return {
    all: configured,
    async open(of) {
      handlers = of;
      await Promise.all(configured.map(start));
    },
    async add(source) {
      const before = sources.get(source.id);
      if (before !== undefined && before.cluster !== source.cluster) {
        const message = `expected cluster ${before.cluster}, as source ${source.id} is of, got ${source.cluster}`;
        throw new CtlError('failed_precondition', message);
      }
      if (before !== undefined) await before.close();
      await start(source);
    },
    async remove(id) {
      const source = sources.get(id);
      if (source === undefined) return;
      sources.delete(id);
      await source.close();
      handlers?.removed(source);
    },
    status: () =>
      [...sources.values()].map((source) => {
        const { id, cluster } = source;
        return { id, cluster, synced: synced.has(source), health: source.health() };
      }),
    close: async () => {
      for (const source of sources.values()) await source.close();
    },
  };
}

/** A source without the kinds of the Orchestrator registry, for a directory that is not that registry. */
function withoutRegistry(source: Source): Source {
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
        replace: (list, seenAt) => sink.replace({ ...list, events: list.events.filter(isRead) }, seenAt),
        changing: (at) => sink.changing(at),
      }),
  };
}
