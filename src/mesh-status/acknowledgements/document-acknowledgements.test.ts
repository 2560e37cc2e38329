/** What replicas tell each other about documents, through a scripted API server. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { Connection, KubernetesClient } from '../../kubernetes/index.ts';
import { fastClock } from '../../kubernetes/testing/fast-clock.ts';
import { ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { storeWrites } from '../../kubernetes/testing/writable-objects.ts';
import { DocumentAcknowledgements } from './document-acknowledgements.ts';
import type { ObservedProxy } from './followed-proxies.ts';

const LEASES = '/apis/coordination.k8s.io/v1/leases';
const NS = 'mesh-system';
const KEY = 'VirtualService/shop/web';

async function startServer(t: TestContext) {
  const server = await ScriptedApiServer.start();
  t.after(() => server.stop());
  server.serve(LEASES);
  storeWrites(server);
  return server;
}

/** A replica with a proxy that has acknowledged this version of the mesh; the document is of version 2. */
function startReplica(t: TestContext, server: ScriptedApiServer, name: string, acknowledged = 1) {
  const clock = fastClock(20);
  const connection = new Connection({ access: server.access(), clock, random: () => 0, userAgent: name });
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const replica = new DocumentAcknowledgements({
    client: new KubernetesClient(connection),
    namespace: NS,
    identity: name,
    id: name,
    clock,
    random: () => 0,
    now: Date.now,
    log,
    version: () => 2,
    rootNamespace: () => 'root',
    documentsOf: () => [KEY],
    readersOf: () => new Set([name]),
    withheld: () => new Map(),
    inForce: () => ({ uid: 'uid', generation: 1, since: 2 }),
  });
  const proxy = { acknowledged };
  const observed: ObservedProxy = {
    connectionId: name,
    completeVersion: () => 2,
    acknowledgedVersion: () => proxy.acknowledged,
    *unaccepted() {
      if (proxy.acknowledged < 2) yield ['rds', '80', 'outstanding'];
    },
  };
  const node = { workload: `${name}.shop`, namespace: 'shop' };
  replica.connected(node as Parameters<typeof replica.connected>[0], observed);
  replica.start();
  t.after(() => connection.close());
  t.after(() => replica.close());
  const pending = () => replica.of(KEY).map((state) => state?.pending);
  const lease = () => server.find(LEASES, `meshd-documents-${name}`, NS);
  return { replica, proxy, pending, lease, disappear: () => connection.close() };
}

test('the replica that leads learns what the proxies of others lack, and who has not reported', async (t) => {
  const server = await startServer(t);
  const [leader, other] = [startReplica(t, server, 'leader', 2), startReplica(t, server, 'other')];
  const changed: string[] = [];
  t.after(leader.replica.follow((keys) => void changed.push(...keys)));
  await waitUntil(() => leader.replica.areKnown && leader.pending().length === 2);
  assert.deepEqual(leader.pending(), [undefined, undefined]);
  leader.replica.changed(KEY, 1);
  await waitUntil(() => leader.pending()[0] === 0);
  assert.equal(leader.pending()[1], undefined);
  other.replica.changed(KEY, 1);
  await waitUntil(() => leader.pending()[1] === 1);
  other.proxy.acknowledged = 2;
  await waitUntil(() => leader.pending()[1] === 0);
  assert.ok(changed.includes(KEY));
  // Settled: no more needs to be reported.
  other.replica.changed(KEY, 0);
  leader.replica.changed(KEY, 0);
  await waitUntil(() => leader.pending().every((each) => each === undefined));
  assert.equal(leader.lease(), undefined);
  await other.replica.close();
  await waitUntil(() => leader.pending().length === 1);
  assert.equal(other.lease(), undefined);
});

test('the replica that leads looks at all documents once it knows that there is no other replica', async (t) => {
  const leader = startReplica(t, await startServer(t), 'leader', 2);
  const known: boolean[] = [];
  const end = leader.replica.follow((keys) => {
    if (keys.length === 0) known.push(leader.replica.areKnown);
  });
  t.after(end);
  await waitUntil(() => known.length > 0);
  assert.deepEqual(known, [true]);
});

test('a replica that no longer leads reports what the next one needs', async (t) => {
  const server = await startServer(t);
  const [first, second] = [startReplica(t, server, 'first', 2), startReplica(t, server, 'second', 2)];
  const end = first.replica.follow(() => {});
  for (const { replica } of [first, second]) replica.changed(KEY, 1);
  await waitUntil(() => first.pending().join() === '0,0');
  await end();
  t.after(second.replica.follow(() => {}));
  await waitUntil(() => second.pending().join() === '0,0');
});

test('when a replica ends without a word, all documents are looked at, not only those that it reported', async (t) => {
  const server = await startServer(t);
  const [leader, other] = [startReplica(t, server, 'leader', 2), startReplica(t, server, 'other')];
  let all = 0;
  const end = leader.replica.follow((keys) => {
    if (keys.length === 0) all++;
  });
  t.after(end);
  for (const { replica } of [leader, other]) replica.changed(KEY, 1);
  await waitUntil(() => leader.pending().join() === '0,1');
  const before = all;
  await other.disappear();
  await waitUntil(() => leader.pending().length === 1);
  assert.equal(all, before + 1);
});
