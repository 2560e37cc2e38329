/**
 * The controller of the Gateway API with an API server that fails on request, and with other writers of its objects.
 */
import assert from 'node:assert/strict';
import type { ServerHttp2Stream } from 'node:http2';
import { afterEach, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { type Clock, systemClock } from '../core/clock.ts';
import type { ScriptedApiServer, SeenRequest } from '../kubernetes/testing/scripted-api-server.ts';
import { API, CONTROLLER, define, GATEWAYS, PODS, ROUTES, SERVICES } from './testing/gateway-server.ts';
import {
  accepted,
  attached,
  cleanup,
  closeAll,
  gateway,
  hasStatus,
  NS,
  podOf,
  SPEED,
  startController,
  startServer,
  until,
} from './testing/running-controller.ts';

afterEach(closeAll);

const programmedOf = (server: ScriptedApiServer, name: string) => {
  const { conditions = [] } = (server.find(GATEWAYS, name, NS)?.status ?? {}) as {
    conditions?: { type: string; status: string; reason: string; message: string }[];
  };
  return conditions.find(({ type }) => type === 'Programmed');
};

const isStatusWrite = ({ path }: SeenRequest) => path.endsWith('/status');

test('statuses that may not be written cost few requests and one log line, until the right is given', async () => {
  const { server, writes, control } = await startServer();
  const names = Array.from({ length: 200 }, (_, index) => `route-${index}`);
  for (const name of names) server.set(ROUTES, { metadata: { name, namespace: NS } });
  control.refuse = (request) => (isStatusWrite(request) ? [403, 'Forbidden'] : undefined);
  const { lines } = startController(server, names.map(attached));
  await until('several attempts', () => writes.length >= 12);
  // Four at a time, then a pause that doubles.
  assert.ok(writes.length < 40, `${writes.length} attempts`);
  assert.deepEqual(lines, ['a status of httproutes cannot be written: the API server returned HTTP 403 Forbidden']);
  control.refuse = () => undefined;
  await until('all statuses', () => names.every((name) => hasStatus(server, name)));
  assert.deepEqual(lines.slice(1), ['statuses of httproutes can be written again']);
});

test('a server that asks for a pause gets it, and then the statuses', async () => {
  const { server, writes, control } = await startServer();
  const names = Array.from({ length: 20 }, (_, index) => `route-${index}`);
  for (const name of names) server.set(ROUTES, { metadata: { name, namespace: NS } });
  const refusedAt: number[] = [];
  control.refuse = (request) => {
    if (!isStatusWrite(request) || refusedAt.length >= 4) return undefined;
    refusedAt.push(Date.now());
    return [429, 'TooManyRequests', { 'retry-after': '30' }];
  };
  startController(server, names.map(attached));
  await until('four refused', () => refusedAt.length === 4);
  await until('a write after the pause', () => writes.length > 4);
  assert.ok((Date.now() - (refusedAt.at(-1) ?? 0)) * SPEED >= 29_000, 'the pause was kept');
  await until('all statuses', () => names.every((name) => hasStatus(server, name)));
});

test('an object whose status is refused is one log line, while others are written', async () => {
  const { server, control } = await startServer();
  for (const name of ['bad', 'good']) server.set(ROUTES, { metadata: { name, namespace: NS } });
  let refused = 0;
  control.refuse = ({ path }) => {
    if (!path.includes('/bad/')) return undefined;
    refused++;
    return [422, 'Invalid'];
  };
  const { lines } = startController(server, [attached('bad'), attached('good')]);
  for (const count of [1, 2, 3, 4]) {
    await until('another attempt', () => refused >= count);
    server.set(ROUTES, { metadata: { name: 'good', namespace: NS } });
    await until('the status of the other', () => hasStatus(server, 'good'));
  }
  const reason = 'HTTP 422 Invalid: scripted Invalid';
  assert.deepEqual(lines, [`the API server rejects the status of HTTPRoute/${NS}/bad: ${reason}`]);
});

test('a version that changed meanwhile is not a failure: the status is written to the newest', async () => {
  const { server, control } = await startServer();
  server.set(ROUTES, { metadata: { name: 'a', namespace: NS } });
  const other = { parents: [{ parentRef: { name: 'x' }, controllerName: 'example.com/other', conditions: [] }] };
  let raced = false;
  control.refuse = () => {
    if (!raced) server.set(ROUTES, { metadata: { name: 'a', namespace: NS }, status: other });
    raced = true;
    return undefined;
  };
  const { lines } = startController(server, [attached('a')]);
  await until('the status', () => hasStatus(server, 'a'));
  const stored = server.find(ROUTES, 'a', NS);
  assert.ok(stored);
  const { parents } = stored.status as { parents: unknown[] };
  assert.deepEqual([parents.length, parents[0]], [2, other.parents[0]]);
  assert.deepEqual(lines, []);
});

test('a status that another controller removes each time is repaired a few times, then seldom', async () => {
  const { server, writes } = await startServer();
  server.set(ROUTES, { metadata: { name: 'a', namespace: NS } });
  let stripped = 0;
  const strip = setInterval(() => {
    if (!hasStatus(server, 'a')) return;
    stripped++;
    server.set(ROUTES, { metadata: { name: 'a', namespace: NS }, status: {} });
  }, 1);
  cleanup.push(() => clearInterval(strip));
  startController(server, [attached('a')]);
  await until('the first pause', () => stripped >= 6);
  const [first, before, startedAt] = [writes.length, stripped, Date.now()];
  await until('more repairs', () => stripped >= before + 3);
  const seconds = ((Date.now() - startedAt) * SPEED) / 1000;
  // One in 30 s.
  assert.ok(writes.length - first <= seconds / 25 + 1, `${writes.length - first} writes in ${seconds} s`);
});

test('a status that is to be another one all the time is written some times, then seldom', async () => {
  const { server, writes } = await startServer();
  server.set(ROUTES, { metadata: { name: 'a', namespace: NS } });
  const startedAt = Date.now();
  const { desired, changed } = startController(server, [attached('a')]);
  let turns = 0;
  const turn = setInterval(() => {
    const reason = `Turn${++turns}`;
    const text = JSON.stringify(attached('a')).replace('"reason":"Accepted"', `"reason":"${reason}"`);
    desired.set(`HTTPRoute/${NS}/a`, JSON.parse(text));
    changed(`HTTPRoute/${NS}/a`);
  }, 1);
  cleanup.push(() => clearInterval(turn));
  await until('more than the first writes', () => writes.length > 35);
  const seconds = ((Date.now() - startedAt) * SPEED) / 1000;
  // 30 at once, and one in 2 s.
  assert.ok(writes.length <= 31 + seconds / 2, `${writes.length} writes in ${seconds} s`);
});

test('an object of a Gateway that is changed back each time is applied a few times, then seldom', async () => {
  const { server, writes } = await startServer();
  server.set(GATEWAYS, gateway('web'));
  let changed = 0;
  const change = setInterval(() => {
    const service = server.find(SERVICES, 'web-meshd', NS);
    if (service === undefined || (service.spec as { type: string }).type === 'NodePort') return;
    changed++;
    server.set(SERVICES, { ...service, spec: { ...(service.spec as object), type: 'NodePort' } });
  }, 1);
  cleanup.push(() => clearInterval(change));
  startController(server, [accepted('web')]);
  await until('the first pause', () => changed >= 5);
  const [first, before, startedAt] = [writes.length, changed, Date.now()];
  await until('more repairs', () => changed >= before + 3);
  const seconds = ((Date.now() - startedAt) * SPEED) / 1000;
  assert.ok(writes.length - first <= seconds / 25 + 1, `${writes.length - first} writes in ${seconds} s`);
});

test('many Gateways at once are deployed as fast as the limit of writes allows', async () => {
  const { server, writes } = await startServer();
  const names = Array.from({ length: 50 }, (_, index) => `web${index}`);
  for (const name of names) server.set(GATEWAYS, gateway(name));
  // How long something waits that has no writes left for repairs: up to 30 s.
  const repairPauses: number[] = [];
  const clock: Clock = {
    now: systemClock.now,
    setTimer(ms, run) {
      if (ms > 20_000 && ms < 30_000) repairPauses.push(ms);
      return systemClock.setTimer(ms, run);
    },
  };
  startController(server, names.map(accepted), { clock });
  const applied = () => new Set(writes.flatMap(({ path }) => (path.endsWith('/status') ? [] : path)));
  await until('all objects of the Gateways', () => applied().size === 3 * names.length);
  assert.deepEqual(repairPauses, []);
});

test('a server that takes no writes is one log line for all Gateways, and no reason in their statuses', async () => {
  const { server, writes, control } = await startServer();
  const names = Array.from({ length: 50 }, (_, index) => `web-${index}`);
  for (const name of names) server.set(GATEWAYS, gateway(name));
  let attempts = 0;
  control.refuse = (request) => {
    if (isStatusWrite(request)) return undefined;
    attempts++;
    return [503, 'ServiceUnavailable'];
  };
  const { lines } = startController(server, names.map(accepted));
  await until('several attempts', () => attempts >= 12);
  assert.ok(attempts < 40, `${attempts} attempts`);
  assert.deepEqual(lines, [
    'gateways currently cannot be deployed: HTTP 503 ServiceUnavailable: scripted ServiceUnavailable',
  ]);
  control.refuse = () => undefined;
  await until('all Services', () => names.every((name) => server.find(SERVICES, `${name}-meshd`, NS) !== undefined));
  assert.deepEqual(lines.slice(1), ['gateways can be deployed again']);
  assert.ok(!writes.some(({ path, body }) => path.endsWith('/status') && body.includes('not deployed')));
});

test('a Gateway whose objects are refused has the reason in its status until they are taken', async () => {
  const { server, control } = await startServer();
  server.set(GATEWAYS, gateway('web'));
  control.refuse = ({ path, method }) =>
    path.includes('/deployments/') && method === 'PATCH' ? [403, 'Forbidden'] : undefined;
  const { lines } = startController(server, [accepted('web')]);
  const programmed = () => programmedOf(server, 'web');
  server.set(PODS, podOf('web'));
  await until('the reason', () => programmed()?.status === 'False');
  assert.equal(programmed()?.message, 'not deployed: HTTP 403 Forbidden: scripted Forbidden');
  control.refuse = () => undefined;
  await until('programmed', () => programmed()?.status === 'True');
  assert.equal(lines.length, 2);
});

test('a Gateway is programmed while a Pod of its own is ready, and says else what its Pods are doing', async () => {
  const { server } = await startServer();
  server.set(GATEWAYS, gateway('web'));
  const running = { state: { running: {} }, lastState: {}, restartCount: 0, ready: false };
  const ended = { restartCount: 7, ready: false, name: 'proxy' };
  const last = { lastState: { terminated: { exitCode: 3 } } };
  const scheduled = { type: 'PodScheduled', status: 'False', message: '0/3 nodes' };
  const loop = 'container proxy keeps restarting; its last exit code is 3';
  const waiting = (reason: string) => ({ ...running, name: 'proxy', state: { waiting: { reason, message: 'x' } } });
  const rows: readonly (readonly [status: object, reason: string, message: string])[] = [
    [{}, 'Pending', 'a Pod has not acknowledged its listeners yet'],
    [{ conditions: [scheduled] }, 'NoResources', 'a Pod cannot be scheduled'],
    [{ containerStatuses: [waiting('ContainerCreating')] }, 'Pending', 'a Pod has not acknowledged its listeners yet'],
    [
      { containerStatuses: [waiting('ImagePullBackOff')] },
      'ImagePullBackOff',
      'container proxy is waiting: ImagePullBackOff',
    ],
    [
      { containerStatuses: [{ ...ended, ...last, state: { waiting: { reason: 'CrashLoopBackOff' } } }] },
      'CrashLoopBackOff',
      loop,
    ],
    [{ containerStatuses: [{ ...ended, ...last, state: { running: {} } }] }, 'CrashLoopBackOff', loop],
  ];
  // A Pod of another account that has the label proves nothing.
  server.set(PODS, { ...podOf('web'), metadata: { ...podOf('web').metadata, name: 'z' }, spec: {} });
  startController(server, [accepted('web')]);
  const programmed = () => programmedOf(server, 'web');
  const is = async (...expected: readonly (string | undefined)[]) => {
    const found = () => [programmed()?.status, programmed()?.reason, programmed()?.message];
    await until(`${expected.join()}, not ${found().join()}`, () => isDeepStrictEqual(found(), expected));
  };
  const none = 'no Pod of Deployment web-meshd is ready';
  await is('False', 'Pending', `${none}: the Deployment has no Pods`);
  for (const [status, reason, message] of rows) {
    server.set(PODS, podOf('web', status));
    await is('False', reason, `${none}: ${message}`);
  }
  server.set(PODS, podOf('web'));
  await is('True', 'Programmed', '');
  // It belongs to another Gateway from now on.
  server.set(PODS, { ...podOf('web'), metadata: { ...podOf('other').metadata, name: 'web-pod' } });
  await is('False', 'Pending', `${none}: the Deployment has no Pods`);
});

test('objects of a Gateway that changed its class are deleted by identifier', async () => {
  const { server, writes } = await startServer();
  server.set(`${API}/gatewayclasses`, { metadata: { name: 'other' }, spec: { controllerName: 'example.com/other' } });
  server.set(GATEWAYS, gateway('web'));
  const { desired, changed } = startController(server, [accepted('web')]);
  await until('the Service', () => server.find(SERVICES, 'web-meshd', NS) !== undefined);
  const uid = server.find(SERVICES, 'web-meshd', NS)?.metadata.uid;
  desired.clear();
  server.set(GATEWAYS, { ...gateway('web'), spec: { gatewayClassName: 'other' } });
  changed(`KubernetesGateway/${NS}/web`);
  await until('no Service', () => server.find(SERVICES, 'web-meshd', NS) === undefined);
  const deleted = writes.find(({ method, path }) => method === 'DELETE' && path.includes('/services/'));
  assert.deepEqual((JSON.parse(deleted?.body ?? '{}') as { preconditions?: unknown }).preconditions, { uid });
});

test('kinds are followed when they are defined; without a change, API discovery is not read again', async () => {
  const { server, control } = await startServer();
  server.set(ROUTES, { metadata: { name: 'a', namespace: NS } });
  const grpc = `${API}/grpcroutes`;
  startController(server, [attached('a'), { ...attached('b'), kind: 'GRPCRoute' }]);
  await until('the status', () => hasStatus(server, 'a'));
  const reads = () => server.requests.filter(({ path }) => path === '/apis').length;
  const before = reads();
  // Two minutes.
  await new Promise((resolve) => setTimeout(resolve, 120_000 / SPEED));
  assert.ok(reads() <= before + 1, `${reads() - before} reads`);
  server.serve(grpc);
  server.set(grpc, { metadata: { name: 'b', namespace: NS } });
  define(server, 'grpcroutes');
  // Discovery is behind the definitions.
  const behind = reads();
  await until('reads of discovery', () => reads() >= behind + 2);
  control.kinds = [['grpcroutes', 'GRPCRoute', true]];
  await until('the status', () => JSON.stringify(server.find(grpc, 'b', NS) ?? {}).includes(CONTROLLER));
});

test('statuses in namespaces that this control plane does not read are left alone', async () => {
  const { server, writes } = await startServer();
  // Written by another control plane, which reads the namespace.
  server.set(ROUTES, { metadata: { name: 'theirs', namespace: 'elsewhere' }, status: attached('theirs').status });
  server.set(ROUTES, { metadata: { name: 'z', namespace: NS } });
  startController(server, [attached('z')], { namespaces: [NS] });
  await until('the status', () => hasStatus(server, 'z'));
  server.set(ROUTES, { metadata: { name: 'theirs', namespace: 'elsewhere' }, status: attached('theirs').status });
  server.set(ROUTES, { metadata: { name: 'z', namespace: NS } });
  await until('the status again', () => hasStatus(server, 'z'));
  assert.deepEqual(
    writes.map(({ path }) => path),
    [`${API}/namespaces/${NS}/httproutes/z/status`, `${API}/namespaces/${NS}/httproutes/z/status`],
  );
});

test('nothing is written after the controller was closed, even by requests that wait', async () => {
  const { server, writes, control } = await startServer();
  const names = Array.from({ length: 30 }, (_, index) => `route-${index}`);
  for (const name of names) server.set(ROUTES, { metadata: { name, namespace: NS } });
  const hanging: ServerHttp2Stream[] = [];
  control.refuse = () => undefined;
  const { intercept } = server;
  server.intercept = (request, stream) => {
    if (!isStatusWrite(request)) return intercept(request, stream);
    writes.push(request);
    hanging.push(stream);
    return true;
  };
  const { close } = startController(server, names.map(attached));
  await until('requests that hang', () => hanging.length === 4);
  await close();
  assert.equal(writes.length, 4);
  await until('aborted requests', () => hanging.every(({ closed }) => closed));
});
