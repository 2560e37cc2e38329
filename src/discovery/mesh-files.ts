/**
 * The mesh configuration and the mesh networks. Each is read from its file (`--meshConfig`, `--networksConfig`) or,
 * where there is no file and the program reads a cluster, from a key of one ConfigMap. Both are followed from then on.
 */
import { systemClock } from '../core/clock.ts';
import type { SourceStatus } from '../debug/index.ts';
import type { Connection } from '../kubernetes/index.ts';
import { getScope } from '../logging/index.ts';
import {
  defaultMeshConfig,
  defaultMeshNetworks,
  type MeshConfig,
  type MeshNetworks,
  type ParsedConfig,
  parseMeshConfig,
  parseMeshNetworks,
} from '../resources/index.ts';
import type { DiscoverySettings } from '../settings/index.ts';
import { createFileValue, type FollowedConfigMap, followConfigMap } from '../sources/index.ts';
import { restartWatch } from './model-settings.ts';
import { revisionSuffix } from './revision.ts';

export interface MeshFiles {
  readonly mesh: MeshConfig;
  readonly networks: MeshNetworks;
}

export interface FollowedMeshFiles {
  /**
   * The first mesh configuration and networks. Pending while the ConfigMap cannot be read or is invalid, because the
   * default may allow what it forbids. Rejects with CtlError when a file exists and cannot be read or is invalid.
   */
  readonly first: Promise<MeshFiles>;
  /** The ConfigMap, where it is read: as a source that the start may wait for. */
  status(): readonly SourceStatus[];
  close(): Promise<void>;
}

/** Called for later values. */
export interface MeshHandlers {
  onMesh(mesh: MeshConfig, eventTime: number): void;
  onNetworks(networks: MeshNetworks, eventTime: number): void;
}

/**
 * @param connection to the cluster; undefined when no cluster is read
 * @throws CtlError when REVISION is no name
 */
export function followMeshFiles(
  settings: DiscoverySettings,
  connection: Connection | undefined,
  handlers: MeshHandlers,
): FollowedMeshFiles {
  const map = openConfigMap(settings, connection);
  const mesh = followMesh(settings, map, handlers);
  const networks = followValue({
    path: settings.networksConfig,
    key: 'meshNetworks',
    what: 'mesh networks',
    parse: parseMeshNetworks,
    defaultValue: defaultMeshNetworks(),
    onValue: (value, at) => handlers.onNetworks(value, at),
    map,
    resyncMs: settings.resyncMs,
  });
  map?.followed.start();
  let synced = false;
  const both = async (): Promise<MeshFiles> => {
    const [first, firstNetworks] = await Promise.all([mesh.first, networks.first]);
    synced = true;
    return { mesh: first, networks: firstNetworks };
  };
  return {
    first: both(),
    status: () =>
      map === undefined ? [] : [{ id: map.title, cluster: settings.clusterID, synced, health: { ok: true } }],
    async close() {
      await Promise.all([mesh.close(), networks.close(), map?.followed.close()]);
    },
  };
}

interface MeshConfigMap {
  readonly followed: FollowedConfigMap;
  /** For messages. */
  readonly title: string;
}

/** Where mesh resources come from files, so does the mesh configuration. */
function openConfigMap(
  { namespace, revision, configDir }: DiscoverySettings,
  connection: Connection | undefined,
): MeshConfigMap | undefined {
  if (connection === undefined || configDir !== '') return undefined;
  const name = `meshd${revisionSuffix(revision)}`;
  const [clock, random, log] = [systemClock, Math.random, getScope('model')];
  const followed = followConfigMap({ connection, namespace, name, clock, random, log });
  return { followed, title: `ConfigMap ${namespace}/${name}` };
}

interface FollowOptions<T> {
  readonly path: string;
  /** Of the ConfigMap. */
  readonly key: string;
  readonly what: string;
  readonly parse: (raw: unknown) => ParsedConfig<T>;
  readonly defaultValue: T;
  readonly onValue: (value: T, eventTime: number) => void;
  readonly map: MeshConfigMap | undefined;
  readonly resyncMs: number;
}

interface Followed<T> {
  readonly first: Promise<T>;
  close(): Promise<void>;
}

function followMesh(settings: DiscoverySettings, map: MeshConfigMap | undefined, handlers: MeshHandlers) {
  const log = getScope('model');
  let warnOfRestart: (next: MeshConfig) => void = () => {};
  const { first, close } = followValue({
    path: settings.meshConfig,
    key: 'mesh',
    what: 'mesh configuration',
    parse: parseMeshConfig,
    defaultValue: defaultMeshConfig(),
    onValue: (value, at) => {
      warnOfRestart(value);
      handlers.onMesh(value, at);
    },
    map,
    resyncMs: settings.resyncMs,
  });
  const watched = first.then((mesh) => {
    warnOfRestart = restartWatch(settings, mesh, (message) => log.warn(message));
    return mesh;
  });
  return { first: watched, close };
}

/** The file counts where there is one, then or later; else the ConfigMap counts. */
function followValue<T>({
  path,
  key,
  what,
  parse,
  defaultValue,
  onValue,
  map,
  resyncMs,
}: FollowOptions<T>): Followed<T> {
  const log = getScope('model');
  const both = (): void => log.info(`${what}: the file ${path} is in force, and not key ${key} of ${map?.title}`);
  /** JSON of the value in force, once there is one. */
  let inForce: string | undefined;
  const emit = (value: T, eventTime: number): void => {
    const text = JSON.stringify(value);
    if (inForce === undefined || text === inForce) return;
    inForce = text;
    onValue(value, eventTime);
  };
  const file = createFileValue<T>({
    path,
    what,
    parse,
    defaultValue,
    ...(map === undefined ? {} : { otherwise: `that of ${map.title} or else the default` }),
    onValue: (value, at) => {
      if (inConfigMap?.value() !== undefined && !fileCounted) both();
      fileCounted = true;
      emit(value, at);
    },
    log,
    clock: systemClock,
    resyncMs,
  });
  let fileCounted = false;
  const inConfigMap = map?.followed.follow<T>({
    key,
    what,
    parse,
    defaultValue,
    onValue: (value, at) => {
      if (!file.isFromFile()) emit(value, at);
    },
  });
  const read = async (): Promise<T> => {
    await file.start();
    fileCounted = file.isFromFile();
    if (fileCounted) void inConfigMap?.first.then(() => inConfigMap.value() !== undefined && both());
    else await inConfigMap?.first;
    // Either can have changed meanwhile.
    const value = file.isFromFile() ? file.value() : (inConfigMap?.value() ?? defaultValue);
    inForce = JSON.stringify(value);
    return value;
  };
  return { first: read(), close: () => file.close() };
}
