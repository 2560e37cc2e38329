/** What replicas tell each other about proxies of Gateways, through a scripted API server. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { Connection, KubernetesClient } from '../../kubernetes/index.ts';
import { fastClock } from '../../kubernetes/testing/fast-clock.ts';
import { ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { storeWrites } from '../../kubernetes/testing/writable-objects.ts';
import { GatewayProxy, gatewayNode, served } from '../testing/gateway-proxies.ts';
import { AcknowledgedListeners } from './acknowledgements.ts';

const LEASES = '/apis/coordination.k8s.io/v1/leases';
const NS = 'mesh-system';

async function startServer(t: TestContext) {
  const server = await ScriptedApiServer.start();
  t.after(() => server.stop());
  server.serve(LEASES);
  const control = storeWrites(server);
  return { server, control };
}

function startReplica(t: TestContext, server: ScriptedApiServer, name: string) {
  const clock = fastClock(20);
  const connection = new Connection({ access: server.access(), clock, random: () => 0, userAgent: name });
  const lines: string[] = [];
  const write = (message: string) => void lines.push(message);
  const replica = new AcknowledgedListeners({
    client: new KubernetesClient(connection),
    namespace: NS,
    revision: 'default',
    identity: name,
    id: name,
    clock,
    random: () => 0,
    now: Date.now,
    log: { debug: () => {}, info: write, warn: write, error: write },
    version: () => 1,
    listenersOf: () => [served(80)],
  });
  const connect = (pod: string) => {
    const proxy = new GatewayProxy();
    proxy.version = 1;
    proxy.states.set(80, 'acknowledged');
    const stream = replica.connected(gatewayNode({ workload: `${pod}.edge` }), proxy);
    return stream ?? assert.fail('it is not a proxy of the Gateway');
  };
  t.after(() => connection.close());
  t.after(() => replica.close());
  const has = (pod: string) =>
    replica.of('edge/web').some((report) => report.get(pod)?.acknowledged.has('digest-80') === true);
  const lease = () => server.find(LEASES, `meshd-gateways-${name}`, NS);
  return { replica, connect, has, lease, lines, disconnect: () => connection.close() };
}

/** This replica leads until the test ends. */
function lead(t: TestContext, { replica }: ReturnType<typeof startReplica>): string[] {
  const changed: string[] = [];
  const end = replica.follow((gateways) => void changed.push(...gateways));
  t.after(end);
  return changed;
}

test('the replica that leads learns what proxies of others acknowledge, and writes no report itself', async (t) => {
  const { server } = await startServer(t);
  const [leader, other] = [startReplica(t, server, 'leader'), startReplica(t, server, 'other')];
  const changed = lead(t, leader);
  leader.connect('web-1');
  await waitUntil(() => leader.has('web-1'));
  const stream = other.connect('web-2');
  await waitUntil(() => leader.has('web-2'));
  assert.ok(changed.includes('edge/web'));
  assert.equal(leader.lease(), undefined);
  stream.disconnected();
  await waitUntil(() => other.lease() === undefined);
  await waitUntil(() => !leader.has('web-2'));
  assert.deepEqual([...leader.lines, ...other.lines], []);
});

test('a replica that begins to lead deletes its report, and writes it again when it ends to lead', async (t) => {
  const { server } = await startServer(t);
  const replica = startReplica(t, server, 'one');
  replica.connect('web-1');
  await waitUntil(() => replica.lease() !== undefined);
  const end = replica.replica.follow(() => {});
  await waitUntil(() => replica.lease() === undefined);
  assert.ok(replica.has('web-1'));
  await end();
  await waitUntil(() => replica.lease() !== undefined);
});

test('the report of a replica that has ended does not count, and is deleted', async (t) => {
  const { server } = await startServer(t);
  const [leader, ended] = [startReplica(t, server, 'leader'), startReplica(t, server, 'ended')];
  lead(t, leader);
  ended.connect('web-2');
  await waitUntil(() => leader.has('web-2'));
  const renewed = () => (ended.lease()?.spec as { renewTime?: string } | undefined)?.renewTime;
  const first = renewed();
  await waitUntil(() => renewed() !== first);
  assert.ok(leader.has('web-2'));
  ended.disconnect();
  await waitUntil(() => !leader.has('web-2'));
  await waitUntil(() => ended.lease() === undefined);
});

test('a report that cannot be written is one line in the log, and is written when that is possible', async (t) => {
  const { server, control } = await startServer(t);
  const replica = startReplica(t, server, 'one');
  let refused = 0;
  control.refuse = ({ method }) => {
    if (method !== 'POST') return undefined;
    refused++;
    return [403, 'Forbidden'];
  };
  replica.connect('web-1');
  await waitUntil(() => refused >= 3);
  assert.equal(replica.lines.length, 1);
  assert.match(replica.lines[0] ?? '', /cannot write the Lease .*: HTTP 403/);
  control.refuse = () => undefined;
  await waitUntil(() => replica.lease() !== undefined);
  await waitUntil(() => replica.lines.length === 2);
});

test('a Lease that somebody deletes is written again, and one of another revision is not read', async (t) => {
  const { server } = await startServer(t);
  const [leader, other] = [startReplica(t, server, 'leader'), startReplica(t, server, 'other')];
  lead(t, leader);
  other.connect('web-2');
  await waitUntil(() => leader.has('web-2'));
  server.remove(LEASES, { name: 'meshd-gateways-other', namespace: NS });
  await waitUntil(() => !leader.has('web-2'));
  await waitUntil(() => leader.has('web-2'));
  const annotations = { 'gateway.mesh.io/acknowledged': '{"edge/web":{"web-3":{"acknowledged":["digest-80"]}}}' };
  const metadata = { name: 'foreign', namespace: NS, annotations };
  server.set(LEASES, { metadata: { ...metadata, labels: { 'gateway.mesh.io/report': 'canary' } } });
  server.set(LEASES, { metadata: { ...metadata, name: 'own', labels: { 'gateway.mesh.io/report': 'default' } } });
  await waitUntil(() => leader.has('web-3'));
  server.remove(LEASES, { name: 'own', namespace: NS });
  await waitUntil(() => !leader.has('web-3'));
});
