/** WorkloadEntries in a scripted API server. */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { KubernetesClient, type KubernetesObject } from '../../kubernetes/index.ts';
import { ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { storeWrites } from '../../kubernetes/testing/writable-objects.ts';
import { meshOf, resource } from '../../model/testing/build.ts';
import { GROUP_ANNOTATION } from '../../resources/index.ts';
import { defaultDiscoverySettings } from '../../settings/index.ts';
import { createConnection } from '../clusters/cluster.ts';
import { createLeadership } from '../clusters/leadership.ts';
import { DISCONNECTED_AT } from './entries.ts';
import { CONNECTED_AT, CONTROLLER, hasDisconnected, isDisconnectedOrStale } from './entries-cluster.ts';
import { createWorkloadRegistry } from './registry.ts';
import { webGroup, webMesh, webStream } from './testing/registering.ts';

const ENTRIES = '/apis/networking.mesh.io/v1alpha3/workloadentries';
const LEASES = '/apis/coordination.k8s.io/v1/leases';
const cleanup: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
});

async function startServer() {
  const server = await ScriptedApiServer.start();
  cleanup.push(() => server.stop());
  for (const path of [ENTRIES, LEASES]) server.serve(path);
  const control = storeWrites(server);
  const entry = () => server.find(ENTRIES, 'web-10.0.0.7', 'shop') as KubernetesObject | undefined;
  const annotation = (key: string) => entry()?.metadata.annotations?.[key];
  const requests = (isRead: boolean) => () =>
    server.requests.filter(({ method, path }) => (method === 'GET') === isRead && path.includes('workloadentries'))
      .length;
  return { server, control, entry, annotation, reads: requests(true), writes: requests(false) };
}

/** The next read of the entry is answered with its state of that time, but later: when the function is called. */
function holdRead(server: ScriptedApiServer): () => void {
  const { intercept } = server;
  let release: (() => void) | undefined;
  server.intercept = (request, stream) => {
    const isRead = request.method === 'GET' && request.path.endsWith('/web-10.0.0.7');
    if (release !== undefined || !isRead) return intercept(request, stream);
    const object = structuredClone(server.find(ENTRIES, 'web-10.0.0.7', 'shop'));
    release = () => void server.json(stream, object);
    return true;
  };
  return () => (release ?? assert.fail('nothing was read'))();
}

async function startReplica(server: ScriptedApiServer, workloadEntryGraceMs = 60_000, snapshot = webMesh()) {
  const settings = defaultDiscoverySettings({ workloadEntryGraceMs });
  const client = new KubernetesClient(createConnection(server.access()));
  const leadership = createLeadership(client, settings, {});
  const cluster = {
    client,
    leadership,
    ownToken: () => Promise.resolve(undefined),
    certificateAuthority: () => Promise.resolve(undefined),
    namespace: undefined,
    closing: new AbortController().signal,
    close: () => Promise.resolve(),
  };
  const { signal: stopping } = new AbortController();
  const options = { settings, cluster, apply: () => {}, snapshot: () => snapshot, stopping };
  const registry = await createWorkloadRegistry(options);
  cleanup.push(async () => {
    await registry.close();
    await leadership.close();
    client.connection.close();
  });
  return { registry, identity: leadership.identity };
}

test('a workload has an object until it has left', async () => {
  const { server, entry, annotation } = await startServer();
  const { registry, identity } = await startReplica(server, 0);
  const stream = webStream();
  registry.opened(stream);
  await waitUntil(() => entry() !== undefined);
  assert.deepEqual(entry()?.spec, {
    address: '10.0.0.7',
    serviceAccount: 'web',
    ports: { http: 8080 },
    labels: { tier: 'front', app: 'web' },
    locality: 'eu/a',
  });
  assert.equal(annotation(GROUP_ANNOTATION), 'web');
  assert.equal(annotation(CONTROLLER), identity);
  assert.ok(Date.parse(annotation(CONNECTED_AT) ?? '') > 0);
  registry.ended(stream);
  await waitUntil(() => entry() === undefined);
});

test('a workload that moves to another replica keeps its object', async () => {
  const { server, entry, annotation } = await startServer();
  // Far longer than the second after which the disconnection is written: a late timer would find its end.
  const [one, two] = [await startReplica(server, 4_000), await startReplica(server)];
  const stream = webStream();
  one.registry.opened(stream);
  await waitUntil(() => annotation(CONTROLLER) === one.identity);
  const uid = entry()?.metadata.uid;
  one.registry.ended(stream);
  await waitUntil(() => annotation(DISCONNECTED_AT) !== undefined);
  assert.equal(annotation(CONNECTED_AT), undefined);
  two.registry.opened(webStream());
  await waitUntil(() => annotation(CONTROLLER) === two.identity);
  assert.equal(annotation(DISCONNECTED_AT), undefined);
  // The grace time of the first replica ends; another workload of it shows that.
  const other = webStream('10.0.0.8');
  one.registry.opened(other);
  await waitUntil(() => server.find(ENTRIES, 'web-10.0.0.8', 'shop') !== undefined);
  one.registry.ended(other);
  await waitUntil(() => server.find(ENTRIES, 'web-10.0.0.8', 'shop') === undefined);
  assert.equal(entry()?.metadata.uid, uid);
});

for (const [which, isSlow] of [
  ['its new replica', false],
  ['its new replica, whose first read ends late,', true],
] as const)
  test(`a workload keeps its object where the clock of ${which} is behind that of the one before`, async () => {
    const { server, entry, annotation, reads } = await startServer();
    const [one, two] = [await startReplica(server), await startReplica(server)];
    const stream = webStream();
    one.registry.opened(stream);
    await waitUntil(() => annotation(CONTROLLER) === one.identity);
    const release = isSlow ? holdRead(server) : undefined;
    const before = reads();
    two.registry.opened({ ...webStream(), connectedAt: Date.now() - 60_000 });
    // It finds the connection of the other replica, and not its end.
    await waitUntil(() => reads() > before);
    one.registry.ended(stream);
    await waitUntil(() => annotation(DISCONNECTED_AT) !== undefined);
    const annotations = { [DISCONNECTED_AT]: annotation(DISCONNECTED_AT) ?? '' };
    const after = resource('WorkloadEntry', 'shop/web-10.0.0.7', { address: '10.0.0.7' }, { annotations });
    two.registry.published([{ key: 'WorkloadEntry/shop/web-10.0.0.7', before: after, after }]);
    release?.();
    await waitUntil(() => annotation(CONTROLLER) === two.identity);
    assert.equal(annotation(DISCONNECTED_AT), undefined);
    assert.notEqual(entry(), undefined);
  });

test('the health of a workload is the condition Healthy of its object', async () => {
  const { server, entry } = await startServer();
  const { registry } = await startReplica(server, 0, meshOf([webGroup({ probe: { tcpSocket: { port: 80 } } })]));
  const stream = webStream();
  registry.opened(stream);
  await waitUntil(() => entry() !== undefined);
  assert.equal(entry()?.metadata.annotations?.['proxy.mesh.io/health-checks-enabled'], 'true');
  const condition = () => {
    const { conditions = [] } = (entry()?.status ?? {}) as { conditions?: Record<string, unknown>[] };
    return conditions.map(({ type, status, message }) => [type, status, message]);
  };
  stream.problem = 'connection refused';
  registry.changed(stream);
  await waitUntil(() => condition().length === 1);
  assert.deepEqual(condition(), [['Healthy', 'False', 'connection refused']]);
  stream.problem = '';
  registry.changed(stream);
  await waitUntil(() => condition()[0]?.[1] === 'True');
  assert.deepEqual(condition(), [['Healthy', 'True', undefined]]);
});

test('reports on another replica than the one of the newest stream are written', async () => {
  const { server, entry, annotation } = await startServer();
  const snapshot = meshOf([webGroup({ probe: { tcpSocket: { port: 80 } } })]);
  const reports = await startReplica(server, 60_000, snapshot);
  const newest = await startReplica(server, 60_000, snapshot);
  const stream = webStream();
  reports.registry.opened(stream);
  await waitUntil(() => annotation(CONTROLLER) === reports.identity);
  newest.registry.opened({ ...webStream(), connectedAt: Date.now() + 1000 });
  await waitUntil(() => annotation(CONTROLLER) === newest.identity);
  stream.problem = 'connection refused';
  // The newest stream connected after the older one by all clocks.
  const object = entry();
  assert.ok(object !== undefined);
  const connected = { [CONNECTED_AT]: new Date(Date.now() + 60_000).toISOString() };
  const annotations = { ...object.metadata.annotations, ...connected };
  server.set(ENTRIES, { ...object, metadata: { ...object.metadata, annotations } });
  const status = () => {
    const { conditions = [] } = (entry()?.status ?? {}) as { conditions?: Record<string, unknown>[] };
    return conditions[0]?.status;
  };
  reports.registry.changed(stream);
  await waitUntil(() => status() === 'False');
  stream.problem = '';
  reports.registry.changed(stream);
  await waitUntil(() => status() === 'True');
  assert.equal(annotation(CONTROLLER), newest.identity);
});

test('an entry of this name that somebody has written is left as it is', async () => {
  const { server, entry, writes } = await startServer();
  const own = { metadata: { name: 'web-10.0.0.7', namespace: 'shop' }, spec: { address: '10.0.0.7' } };
  server.set(ENTRIES, own);
  const { registry } = await startReplica(server, 0);
  const [stream, other] = [webStream(), webStream('10.0.0.8')];
  registry.opened(stream);
  registry.opened(other);
  await waitUntil(() => server.find(ENTRIES, 'web-10.0.0.8', 'shop') !== undefined);
  registry.ended(stream);
  registry.ended(other);
  await waitUntil(() => server.find(ENTRIES, 'web-10.0.0.8', 'shop') === undefined);
  assert.deepEqual(entry()?.spec, own.spec);
  assert.equal(writes(), 2);
});

test('an API server that is unavailable delays the registration', async () => {
  const { server, control, entry } = await startServer();
  control.refuse = () => [503, 'ServiceUnavailable'];
  const { registry } = await startReplica(server);
  registry.opened(webStream());
  await waitUntil(() => server.requests.some(({ path }) => path.includes('workloadentries')));
  assert.equal(entry(), undefined);
  control.refuse = () => undefined;
  await waitUntil(() => entry() !== undefined);
});

test('only entries of groups whose workload has been gone for a long time are abandoned', () => {
  const minute = 60_000;
  const now = Date.now();
  const at = (ms: number) => new Date(now - ms).toISOString();
  const rows: readonly (readonly [annotations: Record<string, string>, abandoned: boolean])[] = [
    [{}, false],
    [{ [DISCONNECTED_AT]: at(60 * minute) }, false],
    [{ [GROUP_ANNOTATION]: 'web' }, false],
    [{ [GROUP_ANNOTATION]: 'web', [DISCONNECTED_AT]: at(15_000) }, false],
    [{ [GROUP_ANNOTATION]: 'web', [DISCONNECTED_AT]: at(21_000) }, true],
    [{ [GROUP_ANNOTATION]: 'web', [CONNECTED_AT]: at(35 * minute) }, false],
    [{ [GROUP_ANNOTATION]: 'web', [CONNECTED_AT]: at(40 * minute) }, true],
  ];
  for (const [annotations, expected] of rows) {
    const shown = JSON.stringify(annotations);
    assert.equal(isDisconnectedOrStale(annotations, 10_000, now), expected, shown);
    // A new leader does not remove what replicas may not have confirmed yet.
    const isDisconnected = annotations[CONNECTED_AT] === undefined;
    assert.equal(hasDisconnected(annotations, 10_000, now), expected && isDisconnected, shown);
  }
});
