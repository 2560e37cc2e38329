/** Registration of workloads without an API server, from streams to documents of the store. */
import assert from 'node:assert/strict';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { tempDir } from '../../../test/harness/files.ts';
import { mockTimers } from '../../core/testing/mock-timers.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { getScope } from '../../logging/index.ts';
import type { Snapshot } from '../../model/index.ts';
import { meshOf, resource, service } from '../../model/testing/build.ts';
import { inline, Mesh, sidecar } from '../../push/testing/mesh.ts';
import type { AnyResource, ResourceChange, ResourceEvent } from '../../resources/index.ts';
import { defaultDiscoverySettings } from '../../settings/index.ts';
import { WorkloadRegistration } from './registration.ts';
import { createWorkloadRegistry } from './registry.ts';
import { TEMPLATE, webGroup, webStream } from './testing/registering.ts';

const cleanup: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
});

const NAME = 'WorkloadEntry/shop/web-10.0.0.7';

const tempFolder = async (): Promise<string> => tempDir({ after: (hook) => cleanup.push(async () => hook()) });

/** A registration; `entries` are the documents that it has set and not deleted. */
async function start(workloadEntryGraceMs: number, stateDir?: string) {
  const entries = new Map<string, AnyResource>();
  const apply = (event: ResourceEvent): void => {
    if (event.type === 'set')
      entries.set(`WorkloadEntry/${event.resource.meta.namespace}/${event.resource.meta.name}`, event.resource);
    if (event.type === 'delete') entries.delete(event.key);
  };
  const settings = defaultDiscoverySettings({ workloadEntryGraceMs, stateDir: stateDir ?? (await tempFolder()) });
  let snapshot = meshOf([]);
  const stop = new AbortController();
  const registration = new WorkloadRegistration({
    settings,
    cluster: undefined,
    apply,
    snapshot: () => snapshot,
    stopping: stop.signal,
  });
  cleanup.push(() => registration.close());
  const publishChanges = (next: Snapshot, resources: readonly ResourceChange[]): void => {
    snapshot = next;
    registration.published({ resources });
  };
  const publish = (...resources: AnyResource[]): void => {
    const changes = resources.map((after) => {
      return { key: `${after.kind}/${after.meta.namespace}/${after.meta.name}`, before: undefined, after };
    });
    publishChanges(meshOf(resources), changes);
  };
  return { registration, entries, publish, publishChanges, stop };
}

test('a workload has an entry from its connection until the grace time after its last stream', async () => {
  const { registration, entries, publish } = await start(20);
  publish(webGroup());
  const first = registration.connected(webStream().node);
  await waitUntil(() => entries.has(NAME));
  const second = registration.connected(webStream().node);
  first?.disconnected();
  registration.connected(webStream('10.0.0.8').node);
  await waitUntil(() => entries.size === 2);
  second?.disconnected();
  await waitUntil(() => entries.size === 1);
  assert.ok(entries.has('WorkloadEntry/shop/web-10.0.0.8'));
});

test('a workload that connects again within the grace time keeps its entry', async () => {
  const { registration, entries, publish } = await start(60_000);
  publish(webGroup());
  registration.connected(webStream().node)?.disconnected();
  const other = registration.connected(webStream('10.0.0.8').node);
  await waitUntil(() => entries.has('WorkloadEntry/shop/web-10.0.0.8'));
  other?.disconnected();
  registration.connected(webStream('10.0.0.9').node);
  await waitUntil(() => entries.has('WorkloadEntry/shop/web-10.0.0.9'));
  assert.ok(entries.has('WorkloadEntry/shop/web-10.0.0.8'));
});

test('a workload of a group with a probe is unhealthy until it reports otherwise', async () => {
  const { registration, entries, publish } = await start(0);
  publish(webGroup({ probe: { tcpSocket: { port: 8080 } } }));
  const stream = registration.connected(webStream().node);
  const unhealthy = () => entries.get(NAME)?.meta.unhealthy;
  await waitUntil(() => entries.has(NAME));
  assert.equal(unhealthy(), true);
  stream?.health(undefined);
  await waitUntil(() => unhealthy() === undefined);
  stream?.health('connection refused');
  await waitUntil(() => unhealthy() === true);
  // The report is about the application: it stays in force on the next stream.
  stream?.health(undefined);
  await waitUntil(() => unhealthy() === undefined);
  registration.connected(webStream().node);
  stream?.disconnected();
  publish(webGroup({ probe: { tcpSocket: { port: 8081 } }, metadata: { labels: { app: 'other' } } }));
  await waitUntil(() => entries.get(NAME)?.meta.labels.app === 'other');
  assert.equal(unhealthy(), undefined);
});

test('a group that comes later registers the workloads that are connected, and its deletion removes them', async () => {
  const { registration, entries, publish, publishChanges } = await start(60_000);
  registration.connected(webStream().node);
  publish();
  publish(webGroup());
  await waitUntil(() => entries.has(NAME));
  const deleted = { key: 'WorkloadGroup/shop/web', before: webGroup(), after: undefined };
  publishChanges(meshOf([]), [deleted]);
  await waitUntil(() => entries.size === 0);
});

test('a workload has one entry when the network of its group changes', async () => {
  const { registration, entries, publish } = await start(60_000);
  publish(webGroup());
  registration.connected(webStream().node);
  await waitUntil(() => entries.has(NAME));
  const inNetwork = webGroup({ template: { ...TEMPLATE, network: 'dmz' } });
  publish(inNetwork, ...entries.values());
  await waitUntil(() => entries.has(`${NAME}-dmz`));
  assert.equal(entries.size, 1);
  publish(webGroup(), ...entries.values());
  await waitUntil(() => entries.has(NAME));
  assert.equal(entries.size, 1);
});

test('a registered machine has the labels of its group while the network of the group changes', async () => {
  const { registration, entries, publishChanges } = await start(60_000);
  const group = (tier: string, network: string) =>
    webGroup({ template: { ...TEMPLATE, labels: { tier }, ...(network !== '' && { network }) } });
  const mesh = new Mesh(inline, [group('front', 'dmz')]);
  const { node } = webStream('10.0.0.7', { NETWORK: 'own' });
  const { session } = mesh.connect({ ...sidecar('10.0.0.7', 'shop'), ...node });
  await session.ready;
  publishChanges(mesh.snapshot, []);
  registration.connected(node);
  /** The labels once the machine is registered in the network, and with it only. */
  const labelsIn = async (network: string, previous?: string) => {
    await waitUntil(() => entries.has(`${NAME}-${network}`) && entries.size === 1);
    mesh.change([...entries.values()], previous === undefined ? [] : [`${NAME}-${previous}`]);
    await mesh.settled();
    return session.node.labels;
  };
  assert.deepEqual(await labelsIn('dmz'), { app: 'web', tier: 'front' });
  let previous = 'dmz';
  for (const [tier, network] of [
    ['closed', 'edge'],
    ['open', ''],
    ['closed', 'dmz'],
  ] as const) {
    const after = group(tier, network);
    mesh.change([after]);
    publishChanges(mesh.snapshot, [{ key: 'WorkloadGroup/shop/web', before: undefined, after }]);
    const next = network || 'own';
    assert.deepEqual(await labelsIn(next, previous), { app: 'web', tier });
    previous = next;
  }
});

test('a workload whose health changes without end is written a few times at once, and last what it is', async () => {
  let writes = 0;
  const snapshot = meshOf([webGroup({ probe: { tcpSocket: { port: 80 } } })]);
  const registry = await createWorkloadRegistry({
    settings: defaultDiscoverySettings({ stateDir: await tempFolder() }),
    cluster: undefined,
    apply: (event) => {
      if (event.type === 'set') writes++;
    },
    snapshot: () => snapshot,
    stopping: new AbortController().signal,
  });
  cleanup.push(() => registry.close());
  const stream = webStream();
  registry.opened(stream);
  for (let index = 0; index < 200; index++) {
    stream.problem = index % 2 === 0 ? '' : 'away';
    registry.changed(stream);
    await nextTurn();
  }
  assert.ok(writes >= 2 && writes <= 15, String(writes));
});

test('only one of two groups can register an address', async () => {
  const { registration, entries, publish } = await start(60_000);
  const api = resource('WorkloadGroup', 'shop/api', { template: { serviceAccount: 'web' } });
  publish(webGroup(), api);
  registration.connected(webStream().node);
  await waitUntil(() => entries.has(NAME));
  registration.connected(webStream('10.0.0.7', { AUTO_REGISTER_GROUP: 'api' }).node);
  registration.connected(webStream('10.0.0.8', { AUTO_REGISTER_GROUP: 'api' }).node);
  await waitUntil(() => entries.has('WorkloadEntry/shop/api-10.0.0.8'));
  assert.equal(entries.size, 2);
});

test('workloads of one account beyond its rate wait for their turn, and are not looked at meanwhile', async () => {
  const count = 105;
  const names = new Set<string>();
  let looks = 0;
  const snapshot = meshOf([webGroup()]);
  const registry = await createWorkloadRegistry({
    settings: defaultDiscoverySettings({ stateDir: await tempFolder() }),
    cluster: undefined,
    apply: (event) => event.type === 'set' && names.add(event.resource.meta.name),
    snapshot: () => {
      looks++;
      return snapshot;
    },
    stopping: new AbortController().signal,
  });
  cleanup.push(() => registry.close());
  for (let index = 0; index < count; index++) registry.opened(webStream(`10.0.1.${index + 1}`));
  await waitUntil(() => names.size === count);
  assert.ok(looks <= 2 * count, String(looks));
});

test('an entry that is confirmed again causes no push', async () => {
  const entry = (connectedAt: string, address = '10.0.0.7') =>
    resource(
      'WorkloadEntry',
      'shop/web-10.0.0.7',
      { address, labels: { app: 'web' } },
      { annotations: { 'mesh.io/connectedAt': connectedAt }, labels: { app: 'web' } },
    );
  const selecting = service('shop/web', { selector: { app: 'web' } });
  const mesh = new Mesh(inline, [selecting, entry('2026-01-01T00:00:00Z')]);
  const { session, pushes } = mesh.connect(sidecar('10.5.0.9', 'shop'));
  await session.ready;
  await mesh.settled();
  const before = pushes.length;
  mesh.change([entry('2026-01-01T01:00:00Z')]);
  await mesh.settled();
  assert.equal(pushes.length, before);
  mesh.change([entry('2026-01-01T01:00:00Z', '10.0.0.8')]);
  await mesh.settled();
  assert.ok(pushes.length > before);
});

test('the log says once that a workload is registered, however often its health changes', async (t) => {
  const logged = t.mock.method(getScope('model'), 'info', () => {});
  const { registration, entries, publish } = await start(0);
  publish(webGroup({ probe: { tcpSocket: { port: 8080 } } }));
  const stream = registration.connected(webStream().node);
  for (const healthy of [true, false, true]) {
    stream?.health(healthy ? undefined : 'away');
    await waitUntil(() => entries.get(NAME)?.meta.unhealthy === (healthy ? undefined : true) && entries.has(NAME));
  }
  assert.deepEqual(
    logged.mock.calls.map(({ arguments: [message] }) => message),
    ['workload shop/web/web/10.0.0.7 is registered as WorkloadEntry shop/web-10.0.0.7'],
  );
});

describe('over a restart without an API server', () => {
  const PROBED = { probe: { tcpSocket: { port: 8080 } } };

  /** A state folder with two workloads of the group: one healthy, one not. */
  async function lastRun(): Promise<string> {
    const folder = await tempFolder();
    const { registration, entries, publish, stop } = await start(60_000, folder);
    publish(webGroup(PROBED));
    const [healthy, sick] = ['10.0.0.7', '10.0.0.8'].map((address) => registration.connected(webStream(address).node));
    healthy?.health(undefined);
    sick?.health('connection refused');
    await waitUntil(() => entries.size === 2 && entries.get(NAME)?.meta.unhealthy === undefined);
    // Its streams end while the program stops.
    stop.abort();
    for (const stream of [healthy, sick]) stream?.disconnected();
    await registration.close();
    return folder;
  }

  test('workloads are registered again at once, with their health, and keep it when they connect', async () => {
    const { registration, entries, publish } = await start(60_000, await lastRun());
    publish(webGroup(PROBED));
    await registration.restored();
    const unhealthy = () => [...entries].map(([name, { meta }]) => [name, meta.unhealthy]);
    const both = [
      [NAME, undefined],
      ['WorkloadEntry/shop/web-10.0.0.8', true],
    ];
    assert.deepEqual(unhealthy(), both);
    const streams = ['10.0.0.7', '10.0.0.8'].map((address) => registration.connected(webStream(address).node));
    for (let turn = 0; turn < 10; turn++) await nextTurn();
    assert.deepEqual(unhealthy(), both);
    streams[0]?.health('away');
    await waitUntil(() => entries.get(NAME)?.meta.unhealthy === true);
  });

  test('a workload that does not connect again is removed after the grace time and the time of reconnection', async (t) => {
    const folder = await lastRun();
    mockTimers(t);
    const { registration, entries, publish } = await start(10_000, folder);
    publish(webGroup(PROBED));
    await registration.restored();
    registration.connected(webStream().node);
    const pass = async (ms: number) => {
      t.mock.timers.tick(ms);
      for (let turn = 0; turn < 10; turn++) await nextTurn();
    };
    await pass(39_000);
    assert.equal(entries.size, 2);
    await pass(1_000);
    assert.deepEqual([...entries.keys()], [NAME]);
  });

  for (const [what, group, left] of [
    ['whose group has gone', resource('WorkloadGroup', 'shop/other', { template: TEMPLATE }), []],
    ['whose group is for another account', webGroup({ template: { ...TEMPLATE, serviceAccount: 'api' } }), []],
    ['whose group has other labels', webGroup({ metadata: { labels: { app: 'new' } } }), ['new', 'new']],
  ] as const) {
    test(`a workload ${what} is what that group admits`, async () => {
      const { registration, entries, publish } = await start(60_000, await lastRun());
      publish(group);
      await registration.restored();
      assert.deepEqual(
        [...entries.values()].map(({ meta }) => meta.labels.app),
        left,
      );
    });
  }

  for (const [what, spoil, says] of [
    ['damaged', (file: string) => writeFile(file, '{"version":1,"workloads":[{}]}'), /it has an unknown format/],
    ['half written', async (file: string) => writeFile(file, (await readFile(file)).subarray(0, 40)), /unknown format/],
    ['readable by others', (file: string) => chmod(file, 0o644), /is accessible to other users/],
  ] as const) {
    test(`a file that is ${what} is not used, and a warning says so`, async (t) => {
      const folder = await lastRun();
      await spoil(join(folder, 'registered-workloads.json'));
      const warned = t.mock.method(getScope('model'), 'warn', () => {});
      const { registration, entries, publish } = await start(60_000, folder);
      publish(webGroup(PROBED));
      await registration.restored();
      assert.equal(entries.size, 0);
      assert.equal(warned.mock.callCount(), 1);
      assert.match(String(warned.mock.calls[0]?.arguments[0]), says);
    });
  }

  test('a folder that cannot be written is one warning', async (t) => {
    const warned = t.mock.method(getScope('model'), 'warn', () => {});
    const file = join(await tempFolder(), 'file');
    await writeFile(file, '');
    const { registration, entries, publish } = await start(60_000, file);
    publish(webGroup());
    registration.connected(webStream().node);
    await waitUntil(() => entries.has(NAME));
    await registration.close();
    const texts = warned.mock.calls.map(({ arguments: [text] }) => String(text));
    assert.equal(texts.length, 2, texts.join('\n'));
    assert.match(texts[1] ?? '', /registered workloads cannot be saved: .*: EEXIST$/);
  });
});
