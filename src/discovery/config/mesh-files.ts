/**
 * The mesh configuration and the mesh networks. Each is read from its file (`--meshConfig`, `--networksConfig`) or,
 * where there is no file and the program reads a cluster, from a key of one ConfigMap. Both are followed from then on.
 */
import type { SourceStatus } from '../../debug/index.ts';
import type { Connection } from '../../kubernetes/index.ts';
import { getScope } from '../../logging/index.ts';
import {
  defaultMeshConfig,
  defaultMeshNetworks,
  type MeshConfig,
  type MeshNetworks,
  type MeshUpdate,
  mergedUpdate,
  parseMeshConfig,
  parseMeshNetworks,
} from '../../resources/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import { parseConfigText } from '../../sources/index.ts';
import { followValue, type NamedConfigMap, openConfigMap } from './followed-value.ts';
import { restartWatch } from './model-settings.ts';

export interface MeshFiles {
  readonly mesh: MeshConfig;
  readonly networks: MeshNetworks;
}

export interface FollowedMeshFiles {
  /**
   * The first mesh configuration and networks. Pending while the ConfigMap cannot be read or is invalid, because the
   * defaults may allow what the ConfigMap forbids. Rejects with CtlError when a file exists and cannot be read or is
   * invalid.
   */
  readonly first: Promise<MeshFiles>;
  /** Calls the listener for later values: also for those since `first`, which are one update. Called once. */
  follow(listener: (update: MeshUpdate) => void): void;
  /** The status of the ConfigMap, if it is read, as that of a source that the startup may wait for. */
  status(): readonly SourceStatus[];
  close(): Promise<void>;
}

/**
 * @param connection to the cluster; undefined when no cluster is read
 * @throws CtlError when REVISION is not a name
 */
export function followMeshFiles(settings: DiscoverySettings, connection: Connection | undefined): FollowedMeshFiles {
  /** The values since `first`, until somebody follows them. */
  const kept: MeshUpdate[] = [];
  let deliver = (update: MeshUpdate): void => {
    kept[0] = mergedUpdate(kept[0], update);
  };
  const map = openConfigMap(settings, connection, 'meshd', getScope('model'));
  const mesh = followMesh(settings, map, (value, eventTime) => deliver({ changes: [], mesh: value, eventTime }));
  const networks = followValue({
    path: settings.networksConfig,
    key: 'meshNetworks',
    what: 'mesh networks',
    read: (text) => parseConfigText(text, parseMeshNetworks),
    defaultValue: defaultMeshNetworks(),
    onValue: (value, eventTime) => deliver({ changes: [], networks: value, eventTime }),
    map,
    resyncMs: settings.resyncMs,
    log: getScope('model'),
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
    follow(listener) {
      deliver = listener;
      for (const update of kept.splice(0)) listener(update);
    },
    status: () =>
      map === undefined ? [] : [{ id: map.title, cluster: settings.clusterID, synced, health: { ok: true } }],
    async close() {
      await Promise.all([mesh.close(), networks.close(), map?.followed.close()]);
    },
  };
}

function followMesh(
  settings: DiscoverySettings,
  map: NamedConfigMap | undefined,
  onMesh: (mesh: MeshConfig, eventTime: number) => void,
) {
  const log = getScope('model');
  let warnOfRestart: (next: MeshConfig) => void = () => {};
  const { first, close } = followValue({
    path: settings.meshConfig,
    key: 'mesh',
    what: 'mesh configuration',
    read: (text) => parseConfigText(text, parseMeshConfig),
    defaultValue: defaultMeshConfig(),
    onValue: (value, at) => {
      warnOfRestart(value);
      onMesh(value, at);
    },
    map,
    resyncMs: settings.resyncMs,
    log: getScope('model'),
  });
  const watched = first.then((mesh) => {
    warnOfRestart = restartWatch(settings, mesh, (message) => log.warn(message));
    return mesh;
  });
  return { first: watched, close };
}
