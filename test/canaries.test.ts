/** Canaries: simulated Envoys on real streams of one engine, in both variants of the protocol. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SHOP } from '../src/push/testing/faults.ts';
import { endpoints, meshResource, service, virtualService } from '../src/push/testing/mesh.ts';
import { Fleet, type Member } from './canary-harness/fleet.ts';
import { BAD } from './canary-harness/sim-envoy.ts';

const OUT = 'outbound|80||web.shop.svc.cluster.local';

/** A change of the cluster of `web`. */
function rule(sni: string) {
  const trafficPolicy = { tls: { mode: 'SIMPLE', sni } };
  return meshResource('DestinationRule', 'client', 'web', { host: 'web.shop.svc.cluster.local', trafficPolicy });
}

/** A change of a route of `web` in the namespace of the proxies. */
function route(value: string) {
  return meshResource('VirtualService', 'client', 'web', {
    hosts: ['web.shop.svc.cluster.local'],
    http: [
      { route: [{ destination: { host: 'web.shop.svc.cluster.local' } }], headers: { request: { set: { x: value } } } },
    ],
  });
}

/** An EnvoyFilter that changes all clusters or listeners of the proxies. */
function filter(name: string, applyTo = 'CLUSTER', value: object = { alt_stat_name: name }) {
  return meshResource('EnvoyFilter', 'client', applyTo === 'CLUSTER' ? 'names' : name, {
    configPatches: [{ applyTo, patch: { operation: 'MERGE', value } }],
  });
}

function members(mode: 'sotw' | 'delta', count = 6, more: Partial<Member> = {}): Member[] {
  return Array.from({ length: count }, (_, index) => ({ address: `10.5.0.${index}`, mode, ...more }));
}

/** The number of Envoys whose accepted resource contains a text. */
function having(fleet: Fleet, type: 'cds' | 'lds' | 'rds', text: string): number {
  return fleet.envoys.filter(({ has }) => [...has[type].values()].some((each) => each.includes(text))).length;
}

for (const mode of ['delta', 'sotw'] as const) {
  describe(`canaries over ${mode}`, () => {
    it('accept a change, which the others get then', async () => {
      const fleet = new Fleet(SHOP, 'client', 2);
      await fleet.start(members(mode));
      fleet.mesh.change([rule('one.example')]);
      await fleet.rest();
      assert.equal(having(fleet, 'cds', 'one.example'), 6);
      assert.ok(fleet.mesh.trials.length > 0 && fleet.mesh.trials.every((each) => each === 'accepted'));
      assert.ok(fleet.mesh.allSettled());
      fleet.close();
    });

    it('reject a cluster: the others keep the accepted version, and get other changes', async () => {
      const fleet = new Fleet(SHOP, 'client', 2);
      await fleet.start(members(mode));
      fleet.mesh.change([rule('one.example')]);
      await fleet.rest();
      fleet.mesh.change([rule(BAD)]);
      await fleet.rest();
      assert.deepEqual([having(fleet, 'cds', BAD), having(fleet, 'cds', 'one.example')], [0, 6]);
      assert.equal(fleet.envoys.filter(({ bad }) => bad.length > 0).length, 2);
      assert.deepEqual(fleet.mesh.withheld, [OUT]);
      // Other changes, and endpoints of the same cluster.
      fleet.mesh.change([route('blue'), service('shop', 'next')]);
      fleet.mesh.change([endpoints('shop', 'web', '10.0.0.77')]);
      await fleet.rest();
      assert.deepEqual([having(fleet, 'rds', 'blue'), having(fleet, 'cds', 'next.shop')], [6, 6]);
      assert.ok(fleet.envoys.every(({ has }) => [...has.eds.values()].some((each) => each.includes('10.0.0.77'))));
      // A new proxy gets the accepted version.
      const late = fleet.connect({ address: '10.5.1.1', mode });
      await fleet.rest();
      assert.deepEqual([late.bad.length, having(fleet, 'cds', 'one.example')], [0, 7]);
      // The next version is tried anew.
      fleet.mesh.change([rule('three.example')]);
      await fleet.rest();
      assert.equal(having(fleet, 'cds', 'three.example'), 7);
      assert.equal(fleet.envoys.filter(({ bad }) => bad.length > 0).length, 2);
      assert.ok(fleet.mesh.allSettled());
      fleet.close();
    });

    it('reject a route whose name Envoy does not give', async () => {
      const fleet = new Fleet(SHOP, 'client', 2);
      await fleet.start(members(mode));
      fleet.mesh.change([route('blue')]);
      await fleet.rest();
      fleet.mesh.change([route(BAD)]);
      await fleet.rest();
      assert.deepEqual([having(fleet, 'rds', BAD), having(fleet, 'rds', 'blue')], [0, 6]);
      assert.equal(fleet.envoys.filter(({ bad }) => bad.length > 0).length, 2);
      fleet.close();
    });

    it('move to new views first, with what an EnvoyFilter changes', async () => {
      const fleet = new Fleet(SHOP, 'client', 2);
      await fleet.start(members(mode));
      fleet.mesh.change([filter('good-name')]);
      await fleet.rest();
      assert.equal(having(fleet, 'cds', 'good-name'), 6);
      const tried = fleet.mesh.trials.length;
      assert.ok(tried > 0 && fleet.mesh.trials.every((each) => each === 'accepted'));
      fleet.mesh.change([], ['EnvoyFilter/client/names']);
      await fleet.rest();
      assert.equal(having(fleet, 'cds', 'good-name'), 0);
      fleet.mesh.change([filter(BAD)]);
      await fleet.rest();
      assert.deepEqual([having(fleet, 'cds', BAD), having(fleet, 'cds', OUT)], [0, 6]);
      assert.equal(fleet.envoys.filter(({ bad }) => bad.length > 0).length, 2);
      assert.ok(fleet.mesh.withheld.includes(OUT));
      assert.ok(fleet.mesh.allSettled());
      // Another new view, with the rejected clusters: they are not tried again.
      fleet.mesh.change([filter('other', 'LISTENER', { stat_prefix: 'fine' })]);
      await fleet.rest();
      assert.deepEqual([having(fleet, 'lds', 'fine'), having(fleet, 'cds', BAD)], [6, 0]);
      assert.equal(fleet.envoys.filter(({ bad }) => bad.length > 0).length, 2);
      fleet.mesh.change([], ['EnvoyFilter/client/names']);
      await fleet.rest();
      assert.deepEqual([fleet.withheld, having(fleet, 'cds', OUT)], [[], 6]);
      assert.ok(fleet.mesh.allSettled());
      fleet.close();
    });

    it('are awaited for a bound only', async () => {
      const fleet = new Fleet(SHOP, 'client', 2);
      await fleet.start(members(mode, 6, { behaviour: 'silent' }));
      fleet.mesh.change([rule('one.example')]);
      await fleet.rest();
      const told = () => fleet.mesh.engine.stats();
      assert.equal(told().queued, 0);
      fleet.connect({ address: '10.5.1.1', mode });
      await fleet.rest();
      assert.equal(having(fleet, 'cds', 'one.example'), 0);
      await fleet.bound();
      assert.equal(having(fleet, 'cds', 'one.example'), 1);
      assert.deepEqual(fleet.mesh.trials, ['released']);
      fleet.close();
    });

    it('of one caller cannot keep a change from the proxies of another', async () => {
      const fleet = new Fleet(SHOP, 'client', 2);
      const own = { behaviour: 'refuser', caller: 'spiffe://one' } as const;
      await fleet.start([...members(mode, 4, own), { address: '10.5.1.1', mode, caller: 'spiffe://two' }]);
      fleet.mesh.change([rule('one.example')]);
      await fleet.rest();
      await fleet.bound();
      assert.equal(having(fleet, 'cds', 'one.example'), 1);
      assert.deepEqual(fleet.mesh.withheld, []);
      fleet.close();
    });

    it('that leave are replaced, a few times', async () => {
      const fleet = new Fleet(SHOP, 'client', 2);
      await fleet.start([...members(mode, 8, { behaviour: 'leaving' }), { address: '10.5.1.1', mode }]);
      fleet.mesh.change([rule('one.example')]);
      await fleet.rest();
      await fleet.bound();
      const honest = fleet.envoys.filter(({ options }) => options.behaviour === 'honest');
      assert.ok(honest.every(({ has }) => [...has.cds.values()].some((each) => each.includes('one.example'))));
      fleet.close();
    });
  });
}

it('a listener or route that refers to a withheld cluster without an accepted version is withheld', async () => {
  const fleet = new Fleet(SHOP, 'client', 2);
  await fleet.start(members('delta'));
  fleet.mesh.change([virtualService('client', 'nothing', '3s')]);
  const entry = (host: string, sni: string) => [
    meshResource('ServiceEntry', 'client', 'ext', {
      hosts: [host],
      ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
      resolution: 'DNS',
    }),
    meshResource('DestinationRule', 'client', 'ext', { host, trafficPolicy: { tls: { mode: 'SIMPLE', sni } } }),
  ];
  fleet.mesh.change(entry('ext.example', BAD));
  await fleet.rest();
  const named = 'outbound|80||ext.example';
  assert.deepEqual([having(fleet, 'cds', named), having(fleet, 'rds', named)], [0, 0]);
  fleet.close();
});
