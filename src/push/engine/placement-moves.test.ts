/** Proxies that move between placements because a locality rule appears or disappears. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { content, heldMesh, meshResource, parse, ready, turns } from '../testing/mesh.ts';
import { at, DNS, entry, nearby, nearest, notingMesh, RULES, SHOP, STATIC, ZONES } from '../testing/placements.ts';
import { MAX_VIEWS_OF_CALLER } from './caller-views.ts';

describe('a locality rule', () => {
  it('moves proxies to their placements and back, and nothing is generated twice', async () => {
    const { mesh, generator } = notingMesh(SHOP);
    const [one, two] = [mesh.connect(at(0, 'r0/z')), mesh.connect(at(1, 'r1/z'))];
    await ready(mesh, one, two);
    const before = content(one.session);
    generator.jobs.length = 0;
    mesh.change(RULES);
    await mesh.settled();
    for (const [proxy, zone] of [
      [one, 'r0/z'],
      [two, 'r1/z'],
    ] as const) {
      assert.equal(nearest(proxy, DNS), zone);
      assert.equal(nearest(proxy, STATIC), zone);
    }
    assert.deepEqual(generator.asked('lds'), []);
    mesh.change(
      [],
      RULES.map(({ meta: { namespace, name } }) => `DestinationRule/${namespace}/${name}`),
    );
    await mesh.settled();
    for (const { session } of [one, two]) assert.deepEqual(content(session), before);
    assert.equal(one.session.parts('cds')[0], two.session.parts('cds')[0]);
    assert.deepEqual(generator.asked('lds'), []);
  });

  it('when deleted, moves proxies only once their next placement is up to date', async () => {
    const { mesh, generator } = heldMesh([...SHOP, ...RULES]);
    const [one, nowhere] = [mesh.connect(at(0, 'r0/z')), mesh.connect(at(1, ''))];
    await ready(mesh, one, nowhere);
    const before = content(one.session);
    generator.held = true;
    // The configuration of the proxy without a locality changes at the same time.
    mesh.change([entry('dns', 'DNS', ['r0/z', 'r1/z'])], ['DestinationRule/shop/dns', 'DestinationRule/shop/static']);
    await turns();
    assert.deepEqual(content(one.session).cds, before.cds);
    generator.held = false;
    generator.release('outbound');
    await mesh.settled();
    assert.deepEqual(content(one.session), content(nowhere.session));
    assert.equal(one.seen.filter(({ cds }) => cds.length > 0).length, one.seen.length);
    assert.deepEqual(mesh.failures, []);
  });

  it('when deleted, is pushed also to proxies whose placement others move to', async () => {
    const { mesh } = notingMesh([...SHOP, ...RULES]);
    const one = mesh.connect(at(0, 'r0/z'));
    await ready(mesh, one);
    const before = content(one.session);
    mesh.change([], ['DestinationRule/shop/dns', 'DestinationRule/shop/static']);
    await mesh.settled();
    assert.notDeepEqual(content(one.session).cds, before.cds);
    assert.deepEqual(
      one.pushes.reduce((types, push) => types.union(push.types), new Set()),
      new Set(['cds', 'eds']),
    );
  });

  it('when deleted, is pushed once with other parts, and without endpoints of the placement that is left', async () => {
    const policy = (...methods: readonly string[]) =>
      parse({
        apiVersion: 'security.mesh.io/v1beta1',
        kind: 'AuthorizationPolicy',
        metadata: { name: 'methods', namespace: 'client' },
        spec: { rules: [{ to: [{ operation: { methods } }] }] },
      });
    const { mesh, generator } = heldMesh([...SHOP, ...RULES, policy('GET')]);
    const one = mesh.connect(at(0, 'r0/z'));
    await ready(mesh, one);
    generator.held = true;
    const gone = ['DestinationRule/shop/dns', 'DestinationRule/shop/static'];
    mesh.change([policy('PUT'), entry('static', 'STATIC', ZONES.slice(0, 3))], gone);
    await turns();
    generator.release('inbound');
    await turns();
    assert.deepEqual(one.pushes, []);
    generator.held = false;
    generator.release('outbound');
    await mesh.settled();
    assert.deepEqual(
      one.pushes.map(({ types }) => types),
      [new Set(['eds', 'lds', 'cds'])],
    );
    assert.deepEqual(mesh.failures, []);
  });

  it('changes a cluster together with its routes, never one of them first', async () => {
    const { mesh, generator } = heldMesh([...SHOP, ...RULES]);
    const one = mesh.connect(at(0, 'r0/z'));
    const two = mesh.connect(at(1, 'r1/z'));
    await ready(mesh, one, two);
    generator.held = true;
    const route = [{ destination: { host: 'late.example.com' } }];
    const led = meshResource('VirtualService', 'shop', 'led', { hosts: ['led.example.com'], http: [{ route }] });
    mesh.change([entry('late', 'DNS', ['r0/z', 'r1/z']), nearby('late'), led]);
    await turns();
    for (const { seen } of [one, two]) assert.deepEqual(seen, []);
    generator.held = false;
    generator.release('outbound');
    await mesh.settled();
    for (const { seen } of [one, two]) {
      const [first] = seen;
      assert.ok(first?.cds.some(([name]) => name === 'outbound|80||late.example.com'));
      assert.ok((first?.rds.length ?? 0) > 0);
    }
    assert.deepEqual(mesh.failures, []);
  });
});

describe('one caller', () => {
  it('may not have more placements than views are allowed', () => {
    const { mesh, generator } = heldMesh([
      ...SHOP,
      meshResource('DestinationRule', 'shop', 'many', {
        host: 'static.example.com',
        trafficPolicy: {
          loadBalancer: {
            localityLbSetting: {
              distribute: Array.from({ length: MAX_VIEWS_OF_CALLER }, (_, index) => ({
                from: `n${index}/*`,
                to: { '*': 100 },
              })),
            },
          },
        },
      }),
    ]);
    generator.held = true;
    const connect = (index: number, caller: string) => mesh.connect(at(1, `n${index}/z`), undefined, caller);
    // One place is the inbound part's.
    for (let index = 0; index < MAX_VIEWS_OF_CALLER - 1; index++) connect(index, 'greedy');
    assert.throws(() => connect(MAX_VIEWS_OF_CALLER - 1, 'greedy'), { code: 'resource_exhausted' });
    connect(7, 'greedy');
    connect(MAX_VIEWS_OF_CALLER - 1, 'honest');
    assert.equal(mesh.engine.stats().views, 2);
  });
});
