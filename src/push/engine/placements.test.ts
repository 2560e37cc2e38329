/** Proxies of one view in several placements: what depends on the placement is generated for each, the rest once. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { content, heldMesh, Mesh, ready, service, turns, virtualService } from '../testing/mesh.ts';
import {
  at,
  DNS,
  entry,
  FailingGenerator,
  LateGenerator,
  nearby,
  nearest,
  notingMesh,
  RULES,
  resourceOf,
  SHOP,
  STATIC,
  ZONES,
} from '../testing/placements.ts';
import { IDLE_VIEW_MS } from './view-table.ts';

describe('proxies of one view in twenty localities', () => {
  it('cost one generation, and have their own clusters and endpoints only where these depend on it', async () => {
    const { mesh, generator } = notingMesh([...SHOP, ...RULES]);
    const proxies = ZONES.map((zone, index) => mesh.connect(at(index, zone)));
    await ready(mesh, ...proxies);
    assert.equal(mesh.engine.stats().views, 2);
    assert.deepEqual(generator.asked('lds'), ['all']);
    assert.deepEqual(generator.asked('rds'), ['all']);
    const [one] = proxies;
    assert.ok(one !== undefined);
    for (const [index, zone] of ZONES.entries()) {
      const proxy = proxies[index];
      assert.ok(proxy !== undefined);
      assert.equal(nearest(proxy, DNS), zone);
      assert.equal(nearest(proxy, STATIC), zone);
      for (const type of ['lds', 'rds', 'vhds'] as const)
        assert.equal(proxy.session.parts(type)[0], one.session.parts(type)[0]);
      const web = 'outbound|80||web.shop.svc.cluster.local';
      assert.equal(resourceOf(proxy, 'cds', web), resourceOf(one, 'cds', web));
      assert.ok(resourceOf(proxy, 'eds', web) !== undefined);
    }
  });

  it('have the same bundles where no rule reads localities', async () => {
    const { mesh } = notingMesh(SHOP);
    const proxies = ZONES.map((zone, index) => mesh.connect(at(index, zone)));
    await ready(mesh, ...proxies);
    const parts = new Set(proxies.map(({ session }) => session.content().cds[0]));
    assert.equal(parts.size, 1);
  });

  it('have one bundle of clusters where only endpoints depend on the placement', async () => {
    const { mesh } = notingMesh([...SHOP, nearby('static')]);
    const [one, two] = [mesh.connect(at(0, 'r0/z')), mesh.connect(at(1, 'r1/z'))];
    await ready(mesh, one, two);
    assert.equal(one.session.parts('cds')[0], two.session.parts('cds')[0]);
    assert.notEqual(one.session.parts('eds')[0], two.session.parts('eds')[0]);
    mesh.change([service('shop', 'more', { clusterIP: '10.9.0.8' })]);
    await mesh.settled();
    assert.equal(one.session.parts('cds')[0], two.session.parts('cds')[0]);
    for (const proxy of [one, two]) assert.ok(resourceOf(proxy, 'eds', 'outbound|80||more.shop.svc.cluster.local'));
  });

  it('get changed endpoints, each those of its placement', async () => {
    const { mesh, generator } = notingMesh([...SHOP, ...RULES]);
    const [one, two] = [mesh.connect(at(0, 'r0/z')), mesh.connect(at(1, 'r1/z'))];
    await ready(mesh, one, two);
    generator.jobs.length = 0;
    mesh.change([entry('static', 'STATIC', ['r1/z', 'r0/z'])]);
    await mesh.settled();
    for (const { seen } of [one, two]) assert.equal(seen.length, 1);
    assert.equal(nearest(one, STATIC), 'r0/z');
    assert.equal(nearest(two, STATIC), 'r1/z');
    assert.deepEqual(mesh.failures, []);
  });
});

describe('a new placement', () => {
  it('generates the clusters that depend on it and nothing else, and is ready then', async () => {
    const { mesh, generator } = notingMesh([...SHOP, ...RULES]);
    const one = mesh.connect(at(0, 'r0/z'));
    await ready(mesh, one);
    generator.jobs.length = 0;
    const two = mesh.connect(at(1, 'r1/z'));
    assert.deepEqual(content(two.session).lds, [], 'nothing is there before its clusters are');
    await two.session.ready;
    assert.equal(nearest(two, DNS), 'r1/z');
    await ready(mesh, two);
    assert.deepEqual(
      generator.jobs.map(({ units }) => units),
      [{ cds: ['dns.example.com'] }],
    );
    assert.equal(nearest(two, DNS), 'r1/z');
    assert.equal(nearest(two, STATIC), 'r1/z');
    assert.deepEqual(one.pushes, [], 'others get no push');
    assert.deepEqual(
      content(two.session).cds.map(([name]) => name),
      content(one.session).cds.map(([name]) => name),
    );
  });

  it('needs no generation where no cluster depends on it', async () => {
    const { mesh, generator } = notingMesh([...SHOP, nearby('static')]);
    const one = mesh.connect(at(0, 'r0/z'));
    await ready(mesh, one);
    generator.jobs.length = 0;
    const two = mesh.connect(at(1, 'r1/z'));
    assert.equal(nearest(two, STATIC), 'r1/z');
    assert.deepEqual(generator.jobs, []);
  });

  it('gets its clusters after a job that was taken before it existed', async () => {
    let generator: LateGenerator | undefined;
    const mesh = new Mesh(
      (snapshot) => {
        generator = new LateGenerator(snapshot);
        return generator;
      },
      [...SHOP, ...RULES],
    );
    assert.ok(generator !== undefined);
    const one = mesh.connect(at(0, 'r0/z'));
    await ready(mesh, one);
    const { promise, resolve } = Promise.withResolvers<void>();
    generator.answered = promise;
    mesh.change([entry('late', 'DNS', ['r0/z', 'r1/z']), nearby('late')]);
    await turns();
    const two = mesh.connect(at(1, 'r1/z'));
    await turns();
    resolve();
    await ready(mesh, two);
    for (const [proxy, zone] of [
      [one, 'r0/z'],
      [two, 'r1/z'],
    ] as const) {
      assert.equal(nearest(proxy, DNS), zone);
      assert.ok(resourceOf(proxy, 'cds', 'outbound|80||late.example.com'));
    }
    assert.deepEqual(mesh.failures, []);
  });

  it('begins with the last good clusters of its network where its own cannot be generated', async () => {
    let generator: FailingGenerator | undefined;
    const mesh = new Mesh(
      (snapshot) => {
        generator = new FailingGenerator(snapshot);
        return generator;
      },
      [...SHOP, ...RULES],
    );
    assert.ok(generator !== undefined);
    const one = mesh.connect(at(0, 'r0/z'));
    await ready(mesh, one);
    generator.failing.add('dns.example.com');
    const two = mesh.connect(at(1, 'r1/z'));
    await ready(mesh, two);
    assert.equal(resourceOf(two, 'cds', DNS), resourceOf(one, 'cds', DNS));
    assert.match(mesh.failures.join(), /dns\.example\.com.*broken/);
    generator.failing.clear();
    mesh.change([entry('dns', 'DNS', ZONES.slice(0, 3))]);
    await turns();
    assert.deepEqual([nearest(one, DNS), nearest(two, DNS)], ['r0/z', 'r1/z']);
  });

  it('waits for the first generation', async () => {
    const { mesh, generator } = notingMesh([...SHOP, ...RULES]);
    const one = mesh.connect(at(0, 'r0/z'));
    const two = mesh.connect(at(1, 'r1/z'));
    await ready(mesh, one, two);
    assert.equal(generator.asked('lds').length, 1);
    assert.equal(nearest(two, DNS), 'r1/z');
  });
});

describe('an idle placement', () => {
  it('is kept for a reconnect, and dropped after a while', async () => {
    const { mesh, generator } = notingMesh([...SHOP, ...RULES]);
    const stays = mesh.connect(at(0, 'r0/z'));
    const goes = mesh.connect(at(1, 'r1/z'));
    await ready(mesh, stays, goes);
    goes.session.close();
    generator.jobs.length = 0;
    const back = mesh.connect(at(1, 'r1/z'));
    assert.equal(nearest(back, DNS), 'r1/z');
    assert.deepEqual(generator.jobs, []);
    back.session.close();
    mesh.ahead = IDLE_VIEW_MS + 1;
    mesh.change([virtualService('shop', 'web', '3s')]);
    await mesh.settled();
    const [view] = [...mesh.engine.views()].filter(({ view: { part } }) => part === 'outbound');
    assert.equal([...(view?.placements() ?? [])].length, 1);
  });
});

describe('a view that changed while it was idle', () => {
  it('gives a proxy in a new placement all clusters of that placement', async () => {
    const { mesh } = notingMesh([...SHOP, ...RULES]);
    const goes = mesh.connect(at(0, 'r0/z'));
    await ready(mesh, goes);
    goes.session.close();
    mesh.change([virtualService('client', 'web', '3s')]);
    await mesh.settled();
    const comes = mesh.connect(at(1, 'r1/z'));
    await ready(mesh, comes);
    assert.equal(nearest(comes, DNS), 'r1/z');
    assert.equal(nearest(comes, STATIC), 'r1/z');
  });
});

describe('a placement that its proxy left before anything was generated for it', () => {
  it('is dropped at once', async () => {
    const { mesh, generator } = heldMesh([...SHOP, ...RULES]);
    const stays = mesh.connect(at(0, 'r0/z'));
    await ready(mesh, stays);
    generator.held = true;
    for (const [index, zone] of ZONES.entries()) {
      const { session } = mesh.connect(at(index + 1, zone));
      session.ready.catch(() => {});
      session.close();
    }
    const [view] = [...mesh.engine.views()].filter(({ view: { part } }) => part === 'outbound');
    assert.equal([...(view?.placements() ?? [])].length, 1);
    generator.held = false;
    generator.release('outbound');
    await mesh.settled();
    assert.deepEqual(mesh.failures, []);
  });
});
