import assert from 'node:assert/strict';
import { test } from 'node:test';
import { emptyMesh, resource, step } from '../../model/testing/build.ts';
import { knownPods } from './xds-listeners.ts';

const pod = (path: string, spec: object, status: object, cluster?: string) =>
  resource('Pod', path, { spec, status }, cluster === undefined ? {} : { cluster });

const pods = [
  pod(
    'shop/web',
    { serviceAccountName: 'web' },
    { podIP: '10.0.0.1', podIPs: [{ ip: '10.0.0.1' }, { ip: 'fd00::1' }] },
  ),
  pod('shop/new', {}, {}),
  pod('shop/web', { serviceAccountName: 'far' }, { podIP: '10.0.0.2' }, 'far'),
];
const finder = (servesOtherClusters: boolean) =>
  knownPods(step(emptyMesh({ settings: { clusterId: 'home', servesOtherClusters } }), pods));
const find = finder(true);

test('a Pod is found in the local cluster, by whichever of its names, and in another one by its name', () => {
  for (const cluster of [undefined, '', 'home']) assert.equal(find('shop', 'web', cluster)?.serviceAccount, 'web');
  assert.equal(find('shop', 'web', 'far')?.serviceAccount, 'far');
  assert.equal(find('shop', 'new', 'far'), undefined);
  assert.equal(find('shop', 'web', 'unknown'), undefined);
  assert.equal(find('bank', 'web'), undefined);
});

test('a Pod is found in the local cluster, whichever is named, where the proxies of others are not served', () => {
  for (const cluster of ['home', 'far', 'unknown']) {
    assert.equal(finder(false)('shop', 'web', cluster)?.serviceAccount, 'web');
  }
});

test('a Pod has its addresses in any notation, of both families, and none until its status names one', () => {
  const web = find('shop', 'web');
  const addresses = ['10.0.0.1', 'fd00::1', 'FD00:0:0::1', '10.0.0.2'];
  assert.deepEqual(
    addresses.map((address) => web?.has(address)),
    [true, true, true, false],
  );
  const started = find('shop', 'new');
  assert.deepEqual([started?.has('10.0.0.1'), started?.serviceAccount], [undefined, undefined]);
});
