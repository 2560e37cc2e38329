/** The addresses of Services that several clusters have, as the proxies of each cluster see them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AnyResource } from '../../resources/kinds/types.ts';
import { fqdn, meshOf, resource, service, step } from '../testing/build.ts';
import type { Snapshot } from '../types/types.ts';
import { serviceFor } from './addressing.ts';

const [WEB, DB, CACHE] = ['web', 'db', 'cache'].map((name) => `a/${fqdn(`${name}.a`)}`) as [string, string, string];

const at = (name: string, ip: string | readonly string[], cluster?: string): AnyResource => {
  const [clusterIP, ...more] = [ip].flat();
  const spec = more.length === 0 ? { clusterIP } : { clusterIP, clusterIPs: [clusterIP, ...more] };
  return service(`a/${name}`, spec, cluster === undefined ? {} : { cluster });
};

/** The addresses of a service for proxies of the local cluster, and of `east`, `west` and `none`. */
function addressesOf(snapshot: Snapshot, key: string): readonly (readonly string[] | undefined)[] {
  const found = snapshot.services.get(key);
  const seen = (cluster: string) =>
    found === undefined ? undefined : serviceFor(snapshot.memos, found, { cluster }).addresses;
  return [found?.addresses, ...['east', 'west', 'none'].map(seen)];
}

/** The snapshot of these resources, arrived one by one in this order. */
function stepwise(resources: readonly AnyResource[]): Snapshot {
  return resources.reduce((before, each) => step(before, [each]).snapshot, meshOf([]));
}

/** All orders of a few items. */
function permutations<T>(items: readonly T[]): readonly (readonly T[])[] {
  if (items.length < 2) return [items];
  return items.flatMap((item, index) => permutations(items.toSpliced(index, 1)).map((rest) => [item, ...rest]));
}

describe('a Service of several clusters', () => {
  const resources = [
    at('web', '10.96.0.1'),
    at('web', ['10.97.0.1', 'fd00:97::1'], 'east'),
    at('web', '10.96.0.1', 'west'),
  ];
  const expected = [['10.96.0.1'], ['10.97.0.1', 'fd00:97::1'], ['10.96.0.1'], ['10.96.0.1']];

  test('has in each cluster the addresses that it has there, else those of the local cluster, in any order of arrival', () => {
    for (const order of permutations(resources)) {
      const snapshot = stepwise(order);
      assert.deepEqual(addressesOf(snapshot, WEB), expected);
      assert.deepEqual([...snapshot.addressClusters], ['east']);
      const found = snapshot.services.get(WEB);
      assert.ok(found !== undefined);
      assert.equal(serviceFor(snapshot.memos, found, { cluster: 'west' }), found);
      assert.equal(
        serviceFor(snapshot.memos, found, { cluster: 'east' }),
        serviceFor(snapshot.memos, found, { cluster: 'east' }),
        'one object',
      );
    }
  });

  test('follows changes in each cluster', () => {
    let snapshot = meshOf(resources);
    snapshot = step(snapshot, [at('web', '10.97.0.7', 'east')]).snapshot;
    assert.deepEqual(addressesOf(snapshot, WEB), [['10.96.0.1'], ['10.97.0.7'], ['10.96.0.1'], ['10.96.0.1']]);
    const { addressClusters } = snapshot;
    snapshot = step(snapshot, [at('web', '10.97.0.8', 'east')]).snapshot;
    assert.equal(snapshot.addressClusters, addressClusters);
    snapshot = step(snapshot, [at('web', '10.98.0.1', 'west')]).snapshot;
    assert.deepEqual([...snapshot.addressClusters], ['east', 'west']);
    snapshot = step(snapshot, [], ['Service/a/web']).snapshot;
    assert.deepEqual(addressesOf(snapshot, WEB), [['10.97.0.8'], ['10.97.0.8'], ['10.98.0.1'], ['10.97.0.8']]);
    snapshot = step(snapshot, [], ['Service/a/web/east']).snapshot;
    assert.deepEqual(addressesOf(snapshot, WEB), [['10.98.0.1'], ['10.98.0.1'], ['10.98.0.1'], ['10.98.0.1']]);
    assert.equal(snapshot.addressClusters.size, 0);
    assert.equal(snapshot.services.get(WEB)?.clusterAddresses, undefined);
  });

  test('that is headless or external in the local cluster has no addresses anywhere', () => {
    for (const own of [
      service('a/web', { clusterIP: 'None' }),
      service('a/web', { type: 'ExternalName', externalName: 'x.example.com' }),
    ]) {
      assert.deepEqual(addressesOf(meshOf([own, at('web', '10.97.0.1', 'east')]), WEB), [[], [], [], []]);
    }
  });

  test('that is headless in another cluster has its default addresses there', () => {
    const snapshot = meshOf([at('web', '10.96.0.1'), service('a/web', { clusterIP: 'None' }, { cluster: 'east' })]);
    assert.deepEqual(addressesOf(snapshot, WEB), [['10.96.0.1'], ['10.96.0.1'], ['10.96.0.1'], ['10.96.0.1']]);
  });

  test('keeps the addresses of a service entry of its host in all clusters', () => {
    const entry = resource('ServiceEntry', 'a/more', {
      hosts: [fqdn('web.a')],
      addresses: ['192.0.2.1', '192.0.2.0/28'],
      ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
      resolution: 'STATIC',
    });
    const more = ['192.0.2.1', '192.0.2.0/28'];
    assert.deepEqual(addressesOf(meshOf([...resources, entry]), WEB), [
      ['10.96.0.1', ...more],
      ['10.97.0.1', 'fd00:97::1', ...more],
      ['10.96.0.1', ...more],
      ['10.96.0.1', ...more],
    ]);
  });

  test('that is headless in another cluster, beside an entry without addresses, has the listener of its port', () => {
    const entry = resource('ServiceEntry', 'a/web', {
      hosts: [fqdn('web.a')],
      ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
      resolution: 'STATIC',
    });
    const remotes = [service('a/web', { clusterIP: 'None' }, { cluster: 'east' }), at('db', '10.97.0.2', 'east')];
    for (const order of permutations([entry, ...remotes])) {
      const found = stepwise(order).services.get(WEB);
      assert.deepEqual([found?.addresses, found?.unaddressed], [[], undefined]);
    }
  });
});

describe('an address that different Services have in different clusters', () => {
  const resources = [
    at('db', '10.96.0.2'),
    at('cache', '10.96.0.2', 'east'),
    at('cache', '10.98.0.2', 'west'),
    at('web', '10.96.0.2', 'west'),
  ];

  test('leads in each cluster to the one that has it there, in any order of arrival', () => {
    for (const order of permutations(resources)) {
      const snapshot = stepwise(order);
      assert.deepEqual(addressesOf(snapshot, DB), [['10.96.0.2'], [], [], ['10.96.0.2']]);
      assert.deepEqual(addressesOf(snapshot, CACHE), [[], ['10.96.0.2'], ['10.98.0.2'], []]);
      assert.deepEqual(addressesOf(snapshot, WEB), [[], [], ['10.96.0.2'], []]);
      const db = snapshot.services.get(DB);
      assert.ok(db !== undefined);
      assert.deepEqual(
        [db.unaddressed, serviceFor(snapshot.memos, db, { cluster: 'east' }).unaddressed],
        [undefined, true],
      );
      assert.deepEqual(snapshot.nameConflicts(), []);
    }
  });

  test('is free again when its Service is gone, and not before', () => {
    const { snapshot } = step(meshOf(resources), [], ['Service/a/cache/east']);
    assert.deepEqual(addressesOf(snapshot, DB), [['10.96.0.2'], ['10.96.0.2'], [], ['10.96.0.2']]);
    const moved = step(snapshot, [at('db', '10.96.0.9')]).snapshot;
    assert.deepEqual(addressesOf(moved, DB), [['10.96.0.9'], ['10.96.0.9'], ['10.96.0.9'], ['10.96.0.9']]);
    assert.deepEqual(addressesOf(moved, WEB), [['10.96.0.2'], ['10.96.0.2'], ['10.96.0.2'], ['10.96.0.2']]);
    assert.equal(moved.services.get(WEB)?.unaddressed, undefined);
  });

  test('does not belong to a service entry of another namespace in any cluster', () => {
    const entry = resource('ServiceEntry', 'evil/x', {
      hosts: ['x.example.com'],
      addresses: ['10.98.0.2', '192.0.2.1'],
      ports: [{ number: 80, name: 'tcp', protocol: 'TCP' }],
      resolution: 'STATIC',
    });
    const snapshot = meshOf([...resources, entry]);
    assert.deepEqual(snapshot.services.get('evil/x.example.com')?.addresses, ['192.0.2.1']);
  });
});

test('the cost of a Service does not grow with the number of other Services at its address', () => {
  const count = 500;
  let reads = 0;
  const remotes = Array.from({ length: count }, (_, index): AnyResource => {
    const made = at(`s${index}`, '10.96.0.1', 'east');
    const meta = Object.defineProperty({ ...made.meta }, 'cluster', {
      enumerable: true,
      get: () => {
        reads++;
        return 'east';
      },
    });
    return { ...made, meta };
  });
  const all = meshOf([at('web', '10.96.0.1'), ...remotes]);
  assert.deepEqual(addressesOf(all, WEB), [['10.96.0.1'], [], ['10.96.0.1'], ['10.96.0.1']]);
  assert.ok(reads < count * 50, `${reads} reads of ${count} Services`);
  reads = 0;
  const { snapshot, changes } = step(all, [], ['Service/a/s0/east']);
  assert.deepEqual([...changes.services.keys()], [`a/${fqdn('s0.a')}`]);
  assert.ok(reads < 50, `${reads} reads for the change of one`);
  reads = 0;
  const moved = step(snapshot, [at('web', '10.96.0.9')]).snapshot;
  assert.deepEqual(moved.services.get(`a/${fqdn('s1.a')}`)?.addresses, ['10.96.0.1']);
  assert.ok(reads < count * 50, `${reads} reads for the address of all`);
});
