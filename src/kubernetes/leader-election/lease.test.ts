/** A Lease of a scripted API server: the requests that are made, and what is made of the answers. */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import type { Clock } from '../../core/clock.ts';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { KubernetesClient } from '../client.ts';
import { Connection } from '../connection.ts';
import { fastClock } from '../testing/fast-clock.ts';
import { ScriptedApiServer } from '../testing/scripted-api-server.ts';
import { createLeaseAccess, type Lease, type LeaseSpec } from './lease.ts';

const LEASES = '/apis/coordination.k8s.io/v1/leases';
const PATH = '/apis/coordination.k8s.io/v1/namespaces/mesh-system/leases';
const SPEC: LeaseSpec = {
  holderIdentity: 'a',
  leaseDurationSeconds: 15,
  acquireTime: '2026-01-31T12:00:00.000000Z',
  renewTime: '2026-01-31T12:00:00.000000Z',
  leaseTransitions: 3,
};

const cleanup: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
});

/** @param clock by default one that stands still, so that no request takes too long on a crowded machine */
async function access(clock: Clock = fakeClock()) {
  const server = await ScriptedApiServer.start();
  const connection = new Connection({ access: server.access(), clock, random: () => 0, userAgent: 'test' });
  const lines: string[] = [];
  const note = (message: string): void => void lines.push(message);
  const lease = createLeaseAccess({
    client: new KubernetesClient(connection),
    namespace: 'mesh-system',
    name: 'meshd-test',
    log: { debug: () => {}, info: note, warn: note, error: note },
  });
  cleanup.push(async () => {
    connection.close();
    await server.stop();
  });
  return { server, lease, lines };
}

test('a Lease is written with the version that was read, and keeps what others wrote in it', async () => {
  const { server, lease } = await access();
  server.intercept = (_, stream) =>
    server.json(stream, {
      metadata: { name: 'meshd-test', resourceVersion: '7', labels: { team: 'mesh' } },
      spec: { ...SPEC, strategy: 'kept' },
    });
  const read = await lease.read();
  assert.deepEqual(read?.spec, SPEC);
  await lease.replace(read as Lease, { ...SPEC, holderIdentity: 'b' });
  await lease.create(SPEC);
  const [get, put, post] = server.requests;
  assert.deepEqual([get?.method, get?.path], ['GET', `${PATH}/meshd-test`]);
  assert.deepEqual([put?.method, put?.path], ['PUT', `${PATH}/meshd-test`]);
  assert.deepEqual(JSON.parse(put?.body ?? ''), {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'meshd-test', resourceVersion: '7', labels: { team: 'mesh' } },
    spec: { ...SPEC, strategy: 'kept', holderIdentity: 'b' },
  });
  assert.deepEqual([post?.method, post?.path], ['POST', PATH]);
  assert.deepEqual(JSON.parse(post?.body ?? '').metadata, { name: 'meshd-test', namespace: 'mesh-system' });
});

test('a Lease that does not exist is read as none, and every other error as an error', async () => {
  const clock = fakeClock();
  const { server, lease } = await access(clock);
  server.intercept = (_, stream) => server.fail(stream, 404, 'NotFound');
  assert.equal(await lease.read(), undefined);
  server.intercept = (_, stream) => server.fail(stream, 403, 'Forbidden');
  await assert.rejects(lease.read(), { status: 403 });
  let unanswered = false;
  server.intercept = () => {
    unanswered = true;
    return true;
  };
  const refused = assert.rejects(lease.read(), /no response within 4 s/);
  await waitUntil(() => unanswered);
  clock.pass(4000);
  await refused;
});

test('fields of a Lease with wrong types are read as no holder and an unlimited duration', async () => {
  const { server, lease } = await access();
  const spec = { holderIdentity: 7, leaseDurationSeconds: '15', leaseTransitions: null };
  server.intercept = (_, stream) => server.json(stream, { metadata: { name: 'x', resourceVersion: '1' }, spec });
  const { holderIdentity, leaseDurationSeconds, leaseTransitions } = (await lease.read())?.spec ?? {};
  assert.deepEqual([holderIdentity, leaseDurationSeconds, leaseTransitions], ['', Number.POSITIVE_INFINITY, 0]);
});

test('a watch notifies of one Lease, its changes and its deletion', async () => {
  const { server, lease, lines } = await access();
  const set = (name: string, holderIdentity: string): void => {
    const metadata = { name, namespace: 'mesh-system' };
    server.set(LEASES, { metadata, spec: { ...SPEC, holderIdentity } });
  };
  set('other', 'x');
  const seen: (string | undefined)[] = [];
  const end = lease.watch((each) => seen.push(each?.spec.holderIdentity));
  await waitUntil(() => seen.length === 1);
  set('meshd-test', 'a');
  set('other', 'y');
  set('meshd-test', 'b');
  server.remove(LEASES, { name: 'meshd-test', namespace: 'mesh-system' });
  await waitUntil(() => seen.length === 4);
  await end();
  assert.deepEqual(seen, [undefined, 'a', 'b', undefined]);
  assert.deepEqual(lines, []);
});

test('a Lease that may not be watched is one line in the log', async () => {
  const { server, lease, lines } = await access(fastClock(50));
  server.serve(LEASES);
  server.intercept = (_, stream) => server.fail(stream, 403, 'Forbidden');
  const end = lease.watch(() => {});
  await waitUntil(() => server.requests.length > 3);
  server.intercept = () => false;
  await waitUntil(() => lines.length === 2);
  await end();
  assert.match(lines[0] ?? '', /cannot be watched, so a change of the leader is noticed late: HTTP 403/);
  assert.match(lines[1] ?? '', /can be watched again/);
});
