/** Canaries: simulated Envoys on real streams of one engine, in both variants of the protocol. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SHOP } from '../src/push/testing/faults.ts';
import { endpoints, meshResource, service } from '../src/push/testing/mesh.ts';
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

    it('are awaited once by proxies that move, whatever changes meanwhile', async () => {
      const fleet = new Fleet(SHOP, 'client', 2);
      await fleet.start(members(mode, 6, { behaviour: 'silent' }));
      const moving = () => [...fleet.mesh.engine.sessions()].filter(({ isMoving }) => isMoving).length;
      fleet.mesh.change([filter('good-name')]);
      await fleet.rest();
      assert.equal(moving(), 4);
      fleet.mesh.ahead += 200;
      fleet.mesh.change([rule('one.example')]);
      await fleet.rest();
      fleet.mesh.ahead += 110;
      fleet.mesh.retry();
      await fleet.rest();
      assert.equal(moving(), 0);
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

    it('of one caller keep nothing from the proxies of another that joins', async () => {
      const fleet = new Fleet(SHOP, 'client', 2);
      await fleet.start(members(mode, 4, { behaviour: 'refuser', caller: 'spiffe://one' }));
      fleet.mesh.change([rule('one.example')]);
      await fleet.rest();
      assert.deepEqual(fleet.mesh.withheld, [OUT]);
      fleet.connect({ address: '10.5.1.1', mode, caller: 'spiffe://two' });
      await fleet.rest();
      await fleet.bound();
      await fleet.bound();
      assert.equal(having(fleet, 'cds', 'one.example'), 1);
      assert.deepEqual(fleet.withheld, []);
      fleet.close();
    });

    it('that rejected something and are all gone are followed by others, after a time without any', async () => {
      const fleet = new Fleet(SHOP, 'client', 2);
      await fleet.start(members(mode, 4, { behaviour: 'refuser' }));
      fleet.mesh.change([rule('one.example')]);
      await fleet.rest();
      assert.deepEqual(fleet.mesh.withheld, [OUT]);
      for (const envoy of [...fleet.envoys]) fleet.disconnect(envoy);
      fleet.mesh.retry();
      for (const index of [1, 2, 3]) fleet.connect({ address: `10.5.1.${index}`, mode });
      await fleet.rest();
      await fleet.bound();
      await fleet.bound();
      assert.equal(having(fleet, 'cds', 'one.example'), 3);
      assert.deepEqual(fleet.withheld, []);
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

/** An HTTP service outside the mesh whose cluster has this SNI. */
function external(host: string, sni: string) {
  const ports = [{ number: 80, name: 'http', protocol: 'HTTP' }];
  return [
    meshResource('ServiceEntry', 'client', host, { hosts: [host], ports, resolution: 'DNS' }),
    meshResource('DestinationRule', 'client', host, { host, trafficPolicy: { tls: { mode: 'SIMPLE', sni } } }),
  ];
}

describe('what refers to a withheld cluster', () => {
  it('is withheld: virtual hosts of a route configuration, which changes otherwise', async () => {
    const fleet = new Fleet(SHOP, 'client', 2);
    await fleet.start(members('delta'));
    fleet.mesh.change(external('bad.example', BAD));
    await fleet.rest();
    const named = 'outbound|80||bad.example';
    assert.deepEqual([having(fleet, 'cds', named), having(fleet, 'rds', named)], [0, 0]);
    assert.deepEqual(
      fleet.withheld.map(({ type, name }) => [type, name]),
      [
        ['cds', named],
        ['rds', '80'],
      ],
    );
    fleet.mesh.change([...external('fine.example', 'fine'), route('blue')]);
    await fleet.rest();
    for (const text of ['outbound|80||fine.example', 'blue']) assert.equal(having(fleet, 'rds', text), 6, text);
    assert.deepEqual([having(fleet, 'rds', named), fleet.envoys.filter(({ bad }) => bad.length > 0).length], [0, 2]);
    fleet.mesh.change(external('bad.example', 'good'));
    await fleet.rest();
    assert.deepEqual([having(fleet, 'cds', named), having(fleet, 'rds', named)], [6, 6]);
    assert.deepEqual(fleet.withheld, []);
    assert.ok(fleet.mesh.allSettled());
    fleet.close();
  });

  it('keeps what its accepted version refers to, although that is no longer generated', async () => {
    const fleet = new Fleet([...SHOP, ...external('old.example', 'old')], 'client', 2);
    const to = (host: string) => {
      const spec = { hosts: ['web.shop.svc.cluster.local'], http: [{ route: [{ destination: { host } }] }] };
      return meshResource('VirtualService', 'client', 'web', spec);
    };
    fleet.mesh.change([to('old.example')]);
    await fleet.start(members('delta'));
    fleet.mesh.change(
      [...external('new.example', BAD), to('new.example')],
      ['ServiceEntry/client/old.example', 'DestinationRule/client/old.example'],
    );
    await fleet.rest();
    for (const type of ['cds', 'rds'] as const) {
      assert.equal(having(fleet, type, 'outbound|80||old.example'), 6, type);
      assert.equal(having(fleet, type, 'outbound|80||new.example'), 0, type);
    }
    fleet.mesh.change(external('new.example', 'good'));
    await fleet.rest();
    for (const type of ['cds', 'rds'] as const) {
      assert.equal(having(fleet, type, 'outbound|80||old.example'), 0, type);
      assert.equal(having(fleet, type, 'outbound|80||new.example'), 6, type);
    }
    fleet.close();
  });
});
