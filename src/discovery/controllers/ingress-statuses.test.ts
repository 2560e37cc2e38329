/** Addresses of Ingresses in a scripted API server: when they are written, repaired and removed, and by which replica. */

import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { TokenBucket } from '../../core/fairness/token-bucket.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { KubernetesClient } from '../../kubernetes/index.ts';
import { type Listed, ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { storeWrites } from '../../kubernetes/testing/writable-objects.ts';
import { defaultMeshConfig, type MeshConfig, type ResourceKey } from '../../resources/index.ts';
import { keyOf } from '../../resources/kinds/types.ts';
import { defaultDiscoverySettings } from '../../settings/index.ts';
import { documentsOf } from '../../translators/gateway-api/testing/translated.ts';
import { createConnection } from '../clusters/cluster.ts';
import { createLeadership } from '../clusters/leadership.ts';
import { createTranslation } from '../pipeline/translation.ts';
import { runIngressStatuses } from './ingress-statuses.ts';

const INGRESSES = '/apis/networking.k8s.io/v1/ingresses';
const LEASES = '/apis/coordination.k8s.io/v1/leases';
const NS = 'shop';

const cleanup: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
});

/** An Ingress of the mesh, or of another class. */
const ingress = (name: string, ingressClassName = 'mesh') => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'Ingress',
  metadata: { name, namespace: NS },
  spec: { ingressClassName, rules: [{ host: `${name}.example` }] },
});

/** The Service in front of the gateways. */
const service = (ingress: readonly object[], externalIPs: readonly string[] = []) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'front', namespace: 'edge' },
  spec: { type: 'LoadBalancer', externalIPs, ports: [{ port: 80 }] },
  status: { loadBalancer: { ingress } },
});

const at = (...addresses: readonly object[]) => ({ loadBalancer: { ingress: addresses } });
const ONE = { ip: '203.0.113.1' };
const TWO = { hostname: 'lb.example' };

async function startServer() {
  const server = await ScriptedApiServer.start();
  cleanup.push(() => server.stop());
  for (const path of [INGRESSES, LEASES]) server.serve(path);
  const control = storeWrites(server);
  const statusOf = (name: string) => server.find(INGRESSES, name, NS)?.status;
  return {
    server,
    control,
    /** Stores Ingresses, with the status of each that has one. */
    store: (...objects: readonly Listed[]) => {
      for (const object of objects) server.set(INGRESSES, object);
    },
    statusOf,
    has: (name: string, status: object) =>
      waitUntil(() => JSON.stringify(statusOf(name)) === JSON.stringify(status), {
        what: () => `${name} has ${JSON.stringify(statusOf(name))}, expected ${JSON.stringify(status)}`,
      }),
    /** Names of Ingresses, in the order of the writes. */
    writes: () => server.requests.flatMap(({ path }) => /ingresses\/([^/]+)\/status$/.exec(path)?.[1] ?? []),
  };
}

/** A replica that has read these documents. */
function startReplica(server: ScriptedApiServer, documents: readonly object[], mode: Partial<MeshConfig> = {}) {
  const settings = defaultDiscoverySettings({ orchIngressNamespace: 'edge' });
  const connection = createConnection(server.access());
  const client = new KubernetesClient(connection);
  const leadership = createLeadership(client, settings, {});
  const inForce = new Map<ResourceKey, ReturnType<typeof documentsOf>[number]>();
  const translation = createTranslation(settings, (key) => inForce.get(key));
  const mesh: MeshConfig = { ...defaultMeshConfig(), ingressService: 'front', ...mode };
  const read = (...changed: readonly object[]): void => {
    const changes = changed
      .flatMap((each) => documentsOf(JSON.stringify(each)))
      .map((after) => {
        const key = keyOf(after);
        const before = inForce.get(key);
        inForce.set(key, after);
        return { key, before, after };
      });
    translation.apply({ changes, eventTime: 0 });
  };
  const configure = (next: Partial<MeshConfig>): void => {
    translation.configure({ ...mesh, ...next });
    read();
  };
  translation.configure(mesh);
  read(...documents);
  const task = runIngressStatuses({
    settings,
    mesh,
    translation,
    cluster: { client, leadership },
    statusBudget: new TokenBucket({ rate: 100, burst: 500, now: () => performance.now() }),
  });
  let closed: Promise<void> | undefined;
  const close = () => {
    closed ??= leadership.close().then(() => connection.close());
    return closed;
  };
  cleanup.push(close);
  return { read, configure, task, close };
}

test('Ingresses that are served get the address of the Service once, and others none', async () => {
  const { server, store, has, statusOf, writes } = await startServer();
  const equal = { ...ingress('equal'), status: at(ONE) };
  store(equal, ingress('other', 'other'), ingress('web'));
  const { read } = startReplica(server, [service([ONE]), equal, ingress('other', 'other'), ingress('web')]);
  await has('web', at(ONE));
  // Changes of an object do not lead to writes of what it has.
  store({ ...equal, metadata: { ...equal.metadata, labels: { changed: 'yes' } } }, ingress('last'));
  read(ingress('last'));
  await has('last', at(ONE));
  assert.deepEqual(writes(), ['web', 'last']);
  assert.equal(statusOf('other'), undefined);
});

test('all Ingresses follow the addresses of the Service, and keep the last ones while it has none', async () => {
  const { server, store, has, writes } = await startServer();
  store(ingress('web'));
  const { read } = startReplica(server, [service([ONE]), ingress('web')]);
  await has('web', at(ONE));
  read(service([ONE, TWO]));
  await has('web', at(ONE, TWO));
  read(service([], ['198.51.100.7']));
  await has('web', at({ ip: '198.51.100.7' }));
  const before = writes().length;
  read(service([]));
  read(service([], ['198.51.100.7']), ingress('last'));
  store(ingress('last'));
  await has('last', at({ ip: '198.51.100.7' }));
  assert.deepEqual(writes().slice(before), ['last']);
});

test('an address that somebody changes is written again', async () => {
  const { server, store, has } = await startServer();
  store(ingress('web'));
  startReplica(server, [service([ONE]), ingress('web')]);
  await has('web', at(ONE));
  store({ ...ingress('web'), status: at({ ip: '192.0.2.9' }) });
  await has('web', at(ONE));
});

test('an Ingress that is no longer served loses its address, unless somebody else has written another', async () => {
  const { server, control, store, has, statusOf } = await startServer();
  // Written by an earlier leader.
  const known = { ...ingress('known'), status: at(ONE) };
  const foreign = { ...ingress('foreign', 'other'), status: at(ONE) };
  store(ingress('web'), ingress('taken'), known, foreign);
  const names = ['web', 'taken', 'known'];
  const all = names.map((name) => ingress(name));
  const { read, configure } = startReplica(server, [service([ONE]), ...all, ingress('foreign', 'other')]);
  await Promise.all(names.map((name) => has(name, at(ONE))));
  read(ingress('web', 'other'));
  await has('web', {});
  // Another program writes just before the address is removed; that of `known` is removed after more conflicts.
  let conflicts = 0;
  control.refuse = ({ path }) => {
    if (path.endsWith('/taken/status') && conflicts === 0) {
      conflicts++;
      store({ ...ingress('taken', 'other'), status: at(TWO) });
    }
    return path.endsWith('/known/status') && conflicts++ < 3 ? [409, 'Conflict'] : undefined;
  };
  read(ingress('taken', 'other'));
  await has('taken', at(TWO));
  configure({ ingressControllerMode: 'OFF' });
  await has('known', {});
  assert.deepEqual([statusOf('taken'), statusOf('foreign')], [at(TWO), at(ONE)]);
});

test('only the leader of two replicas writes, and the other one when the leader has ended', async () => {
  const { server, store, has, writes } = await startServer();
  store(ingress('web'));
  const first = startReplica(server, [service([ONE]), ingress('web')]);
  await has('web', at(ONE));
  assert.equal(first.task?.isLeading, true);
  const second = startReplica(server, [service([TWO]), ingress('web')]);
  await waitUntil(() => server.watches(LEASES) >= 2);
  store({ ...ingress('web'), status: at({ ip: '192.0.2.9' }) });
  await has('web', at(ONE));
  assert.deepEqual([first.task?.isLeading, second.task?.isLeading], [true, false]);
  assert.deepEqual(writes(), ['web', 'web']);
  await first.close();
  await has('web', at(TWO));
});

test('no replica takes part in the election where no Ingress is read', async () => {
  const { server } = await startServer();
  assert.equal(startReplica(server, [], { ingressControllerMode: 'OFF' }).task, undefined);
});
