/**
 * The cost of encoding each resource type: protobufjs on existing objects, the writer in use, and with building the
 * objects first.
 */
import { join } from 'node:path';
import { systemClock } from '../../src/core/clock.ts';
import type { XdsType } from '../../src/core/xds-types.ts';
import { modelSettings } from '../../src/discovery/config/model-settings.ts';
import { encodeEndpoints, generate, resolveEndpoints } from '../../src/generate/index.ts';
import type { GeneratedType } from '../../src/generate/types.ts';
import { DEFAULT_PLACEMENT, type OutboundView } from '../../src/generate/views.ts';
import { Model } from '../../src/model/index.ts';
import type { Snapshot } from '../../src/model/types/types.ts';
import { envoy } from '../../src/protobuf/index.ts';
import { viewsOf } from '../../src/push/proxies/proxy-views.ts';
import { defaultMeshConfig, defaultMeshNetworks } from '../../src/resources/index.ts';
import { defaultDiscoverySettings } from '../../src/settings/index.ts';
import { createDirectorySource } from '../../src/sources/index.ts';
import { createStore } from '../../src/store/index.ts';
import { parseNode } from '../../src/xds/request/node.ts';
import { tempDir } from '../../test/harness/files.ts';
import { createScope } from '../../test/harness/owner.ts';
import { encodeNode, sidecarNode } from '../client/node.ts';
import type { Bench } from '../mesh.ts';
import type { Content } from '../options.ts';
import { median } from '../results.ts';
import { monotonicMs } from '../world/clock.ts';
import { namespaceName, World, type WorldSize } from '../world/world.ts';

/** The interface that the generator and protobufjs have in common. */
interface Codec {
  decode(bytes: Uint8Array): object;
  encode(message: object): { finish(): Uint8Array };
}

const CODECS = {
  cds: envoy.config.cluster.v3.Cluster,
  sds: envoy.extensions.transport_sockets.tls.v3.Secret,
  lds: envoy.config.listener.v3.Listener,
  rds: envoy.config.route.v3.RouteConfiguration,
  eds: envoy.config.endpoint.v3.ClusterLoadAssignment,
} as unknown as Readonly<Record<XdsType, Codec>>;

/** Rounds that do not count, until the code is compiled. */
const WARM_UP = 3;

/** Median milliseconds of `work`. */
function timed(rounds: number, work: () => unknown): number {
  const times: number[] = [];
  for (let round = 0; round < rounds + WARM_UP; round++) {
    const started = monotonicMs();
    work();
    if (round >= WARM_UP) times.push(monotonicMs() - started);
  }
  return median(times);
}

async function snapshotOf(size: WorldSize): Promise<Snapshot> {
  const scope = createScope();
  try {
    const world = new World(join(await tempDir(scope), 'config'), size);
    await world.write();
    const settings = defaultDiscoverySettings();
    const mesh = defaultMeshConfig();
    const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
    const cluster = settings.clusterID;
    const source = createDirectorySource({ dir: world.folder, cluster, log: silent, clock: systemClock, resyncMs: 0 });
    scope.after(() => source.close());
    const store = createStore({
      sources: [source],
      cluster,
      appNamespaces: [],
      rootNamespace: mesh.rootNamespace,
      onRefused: () => {},
      onResolved: () => {},
    });
    source.start({
      apply: (events) => void store.apply(source.id, events),
      replace: (list) => void store.replace(source.id, list),
      changing: () => {},
    });
    await source.synced;
    const model = Model.empty(modelSettings(settings, mesh), mesh, defaultMeshNetworks());
    return model.apply(store.take()).snapshot;
  } finally {
    await scope.close();
  }
}

function outboundViewOf(snapshot: Snapshot, content: Content): OutboundView {
  const node = encodeNode(sidecarNode({ index: 0, namespace: namespaceName(0), content }));
  for (const view of viewsOf(snapshot, parseNode(Buffer.concat(node)))) if (view.part === 'outbound') return view;
  throw new Error('a sidecar has an outbound view');
}

type Cells = (string | number | undefined)[];

function generatedRow(
  snapshot: Snapshot,
  view: OutboundView,
  type: GeneratedType,
  rounds: number,
): { cells: Cells; asking: string[] } {
  const make = (): ReturnType<typeof generate> => generate(snapshot, view, { [type]: 'all' });
  const resources = [...(make().units[type]?.values() ?? [])].flat();
  const codec = CODECS[type];
  const messages = resources.map(({ bytes }) => codec.decode(bytes));
  const encodeMs = timed(rounds, () => messages.map((message) => codec.encode(message).finish()));
  const bytes = resources.reduce((sum, resource) => sum + resource.bytes.length, 0);
  return {
    // protobufjs writes clusters, listeners and routes. An unchanged virtual host is not written
    // again.
    cells: [type, resources.length, bytes, encodeMs, encodeMs, timed(rounds, make)],
    asking: resources.flatMap(({ name, refs }) => (refs.length === 0 ? [] : [name])),
  };
}

function endpointsRow(snapshot: Snapshot, view: OutboundView, names: readonly string[], rounds: number): Cells {
  const inputs = names.flatMap((name) => resolveEndpoints(snapshot, view, DEFAULT_PLACEMENT, name) ?? []);
  const encoded = inputs.map(encodeEndpoints);
  const messages = encoded.map((bytes) => CODECS.eds.decode(bytes));
  const bytes = encoded.reduce((sum, each) => sum + each.length, 0);
  return [
    'eds',
    encoded.length,
    bytes,
    timed(rounds, () => messages.map((message) => CODECS.eds.encode(message).finish())),
    timed(rounds, () => inputs.map(encodeEndpoints)),
    timed(rounds, () =>
      names
        .map((name) => resolveEndpoints(snapshot, view, DEFAULT_PLACEMENT, name))
        .map((input) => input && encodeEndpoints(input)),
    ),
  ];
}

export const encode: Bench = {
  name: 'encode',
  about: 'protobufjs compared with the writer in use, per resource type, for one outbound view',
  inProcess: true,
  async run({ options, progress }) {
    const { services, endpoints, namespaces, content, rounds } = options;
    progress(`encoding ${services} services`);
    const snapshot = await snapshotOf({ services, endpoints, namespaces, content });
    const view = outboundViewOf(snapshot, content);
    const clusters = generatedRow(snapshot, view, 'cds', rounds);
    const rows = [
      clusters.cells,
      endpointsRow(snapshot, view, clusters.asking, rounds),
      generatedRow(snapshot, view, 'lds', rounds).cells,
      generatedRow(snapshot, view, 'rds', rounds).cells,
    ];
    const columns = ['type', 'resources', 'bytes', 'protobufjs ms', 'writer in use ms', 'made and encoded ms'];
    return { rows: [], tables: [{ title: `Encoding one outbound view of ${services} services`, columns, rows }] };
  },
};
