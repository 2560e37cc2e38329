import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { eventually } from '../../../test/harness/eventually.ts';
import { XDS_TYPES } from '../../core/xds-types.ts';
import { endpointName } from '../../generate/index.ts';
import type { Snapshot } from '../../model/types/types.ts';
import { workerUrl } from '../../paths.ts';
import type { AnyResource } from '../../resources/kinds/types.ts';
import { PoolGenerator } from '../jobs/pool-generator.ts';
import {
  type Connected,
  content,
  endpoints,
  inline,
  Mesh,
  service,
  sidecar,
  turns,
  virtualService,
} from '../testing/mesh.ts';

const pools: PoolGenerator[] = [];
function pooled(threads: number, crashes: unknown[] = []) {
  return (snapshot: Snapshot) => {
    const workerFile = fileURLToPath(workerUrl('generate'));
    const onCrash = (error: unknown) => crashes.push(error);
    const later = (ms: number, run: () => void) => void setTimeout(run, ms);
    const pool = new PoolGenerator({ threads, workerFile, onCrash, later, random: () => 0 });
    pool.begin(snapshot);
    pools.push(pool);
    return pool;
  };
}
after(() => Promise.all(pools.map((pool) => pool.close())));

const SHOP = [service('shop', 'web'), endpoints('shop', 'web', '10.0.0.1', '10.0.0.2'), service('other', 'db')];

describe('engine', () => {
  it('gives proxies of one namespace the same bundles, generated once', async () => {
    const mesh = new Mesh(inline, SHOP);
    const one = mesh.connect(sidecar('10.5.0.1', 'client'));
    const two = mesh.connect(sidecar('10.5.0.2', 'client'));
    await Promise.all([one.session.ready, two.session.ready]);
    for (const type of XDS_TYPES) assert.equal(one.session.parts(type)[0], two.session.parts(type)[0]);
  });

  it('sends an endpoint change as EDS alone, without generating anything', async () => {
    const mesh = new Mesh(inline, SHOP);
    const { session, pushes } = mesh.connect(sidecar('10.5.0.1', 'client'));
    await session.ready;
    await mesh.settled();
    const before = content(session);
    pushes.length = 0;
    mesh.change([endpoints('shop', 'web', '10.0.0.1', '10.0.0.3')]);
    await mesh.settled();
    assert.deepEqual(
      pushes.map(({ types }) => [...types]),
      [['eds']],
    );
    const now = content(session);
    assert.notDeepEqual(now.eds, before.eds);
    assert.deepEqual({ ...now, eds: before.eds }, before);
  });

  it('gives proxies with short endpoint names the endpoints under those, shared, also at changes and removals', async () => {
    const mesh = new Mesh(inline, SHOP);
    const short = (address: string, namespace: string) => ({
      ...sidecar(address, namespace),
      shortEndpointNames: true,
    });
    const one = mesh.connect(short('10.5.0.1', 'client'));
    const two = mesh.connect(short('10.5.0.2', 'guest'));
    const long = mesh.connect(sidecar('10.5.0.3', 'client'));
    const all = [one, two, long];
    await Promise.all(all.map(({ session }) => session.ready));
    const clusters = ({ session }: Connected) =>
      session.parts('cds').flatMap((part) => part.resources().filter(({ refs }) => refs.length > 0));
    const assigned = ({ session }: Connected) => session.parts('eds').flatMap((part) => [...part.resources()]);
    const namesOf = (connected: Connected) => new Set(assigned(connected).map(({ name }) => name));
    const asked = (connected: Connected) => new Set(clusters(connected).flatMap(({ refs }) => refs));
    const check = (services: number) => {
      for (const connected of all) assert.deepEqual(namesOf(connected), asked(connected));
      assert.equal(assigned(one).length, services);
      assert.deepEqual(
        clusters(one).map(({ name, refs }) => [name, ...refs]),
        clusters(long).map(({ name }) => [name, endpointName('short', name)]),
      );
      assert.deepEqual(namesOf(long), new Set(clusters(long).map(({ name }) => name)));
      for (const resource of assigned(one)) assert.ok(assigned(two).includes(resource));
    };
    check(2);
    for (const { pushes } of all) pushes.length = 0;
    mesh.change([endpoints('shop', 'web', '10.0.0.1', '10.0.0.3')]);
    await mesh.settled();
    check(2);
    for (const { pushes } of all)
      assert.deepEqual(
        pushes.map(({ types }) => [...types]),
        [['eds']],
      );
    mesh.change([], ['Service/shop/web', 'Endpoints/shop/web']);
    await mesh.settled();
    check(1);
  });

  it('pushes nothing to proxies that a change does not concern', async () => {
    const mesh = new Mesh(inline, SHOP);
    const inside = mesh.connect(sidecar('10.5.0.1', 'shop'));
    const outside = mesh.connect(sidecar('10.5.0.2', 'client'));
    await Promise.all([inside.session.ready, outside.session.ready]);
    await mesh.settled();
    inside.pushes.length = 0;
    outside.pushes.length = 0;
    mesh.change([virtualService('shop', 'web', '3s')]);
    await mesh.settled();
    assert.deepEqual(
      inside.pushes.map(({ types }) => [...types]),
      [['rds']],
    );
    assert.deepEqual(outside.pushes, []);
  });

  it('pushes nothing for routes and endpoints that are all gone and stay so', async () => {
    const mesh = new Mesh(inline, [service('shop', 'web'), endpoints('shop', 'web', '10.0.0.1')]);
    const { session, pushes } = mesh.connect(sidecar('10.5.0.1', 'shop'));
    await session.ready;
    mesh.change([], ['Service/shop/web']);
    await mesh.settled();
    const { eds, rds } = content(session);
    assert.deepEqual({ eds, rds }, { eds: [], rds: [] });
    pushes.length = 0;
    // It is about the proxy, so that its views are looked at, but routes hosts that nobody has.
    mesh.change([virtualService('shop', 'web', '3s')]);
    await mesh.settled();
    assert.deepEqual(pushes, []);
  });

  it('moves a proxy to its new inbound part when it becomes part of a service', async () => {
    const mesh = new Mesh(inline, SHOP);
    const { session } = mesh.connect(sidecar('10.0.0.9', 'shop'));
    await session.ready;
    assert.ok(!content(session).cds.some(([name]) => name === 'inbound|8080||'));
    mesh.change([endpoints('shop', 'web', '10.0.0.9')]);
    await mesh.settled();
    assert.ok(content(session).cds.some(([name]) => name === 'inbound|8080||'));
  });

  it('removes a service with all of its resources', async () => {
    const mesh = new Mesh(inline, SHOP);
    const { session } = mesh.connect(sidecar('10.5.0.1', 'client'));
    await session.ready;
    mesh.change([], ['Service/shop/web', 'Endpoints/shop/web', 'Service/other/db']);
    await mesh.settled();
    const now = content(session);
    assert.ok(!now.cds.some(([name]) => name.includes('web')));
    assert.deepEqual(now.eds, []);
    assert.deepEqual(now.rds, []);
  });

  it('observes convergence once per change and proxy', async () => {
    const mesh = new Mesh(inline, SHOP);
    const { session } = mesh.connect(sidecar('10.5.0.1', 'shop'));
    await session.ready;
    await mesh.settled();
    mesh.converged.length = 0;
    mesh.change([virtualService('shop', 'web', '3s')]);
    await mesh.settled();
    assert.equal(mesh.converged.length, 1);
  });

  it('gives the same bytes with no worker, one and two, after any of these changes', async () => {
    const meshes = [new Mesh(inline, SHOP), new Mesh(pooled(1), SHOP), new Mesh(pooled(2), SHOP)];
    const proxies = meshes.map((mesh) => [
      mesh.connect(sidecar('10.0.0.1', 'shop')),
      mesh.connect(sidecar('10.5.0.2', 'client')),
    ]);
    const steps: readonly [readonly AnyResource[], readonly string[]][] = [
      [[virtualService('shop', 'web', '3s')], []],
      [[service('shop', 'api', { clusterIP: '10.9.0.7' }), endpoints('shop', 'api', '10.0.1.1')], []],
      [[virtualService('shop', 'web', '5s'), service('shop', 'web', { clusterIP: '10.9.0.2' })], []],
      [[], ['Service/other/db']],
    ];
    for (const [sets, deletes] of [[[], []] as const, ...steps]) {
      for (const mesh of meshes) mesh.change(sets, deletes);
      await Promise.all(meshes.map((mesh) => mesh.settled()));
      const [first, ...rest] = proxies.map((pair) => pair.map(({ session }) => content(session)));
      for (const other of rest) assert.deepEqual(other, first);
    }
  });

  it('loses nothing when a worker is killed in the middle of a job', async () => {
    const crashes: unknown[] = [];
    const mesh = new Mesh(pooled(1, crashes), SHOP);
    const { session } = mesh.connect(sidecar('10.5.0.1', 'shop'));
    await session.ready;
    await mesh.settled();
    mesh.change([virtualService('shop', 'web', '7s')]);
    const pool = mesh.generator;
    assert.ok(pool instanceof PoolGenerator);
    const killed = new Set(pool.threads);
    for (const thread of killed) void thread.terminate();
    // It dies with the job or, if that is done by then, without: the pool may notice nothing but its end.
    await eventually(() => assert.ok(pool.threads.every((thread) => !killed.has(thread))));
    await turns();
    assert.ok(crashes.length + mesh.failures.length <= 1);
    mesh.retry();
    await mesh.settled();
    const fresh = new Mesh(inline, [...SHOP, virtualService('shop', 'web', '7s')]);
    const reference = fresh.connect(sidecar('10.5.0.1', 'shop'));
    await reference.session.ready;
    assert.deepEqual(content(session), content(reference.session));
    assert.equal(mesh.recovered.length, mesh.failures.length);
    assert.deepEqual(mesh.engine.failing(), []);
  });
});
