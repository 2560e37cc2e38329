/** The registered workloads of a service account, and the changes that concern them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AnyResource, resourceKey } from '../../resources/kinds/types.ts';
import { meshOf, resource, step } from '../testing/build.ts';

const labels = { app: 'gateway' };
const podOf = (path: string, account: string | undefined, fields = {}, content = {}) =>
  resource(
    'Pod',
    path,
    { spec: account === undefined ? {} : { serviceAccountName: account }, ...content },
    { labels, ...fields },
  );
const entryOf = (path: string, spec: object) => resource('WorkloadEntry', path, { address: '10.0.0.1', ...spec });

test('pods and workload entries of the namespace, by account', () => {
  const mesh = meshOf([
    podOf('edge/a', 'gw'),
    podOf('edge/a2', 'gw'),
    podOf('edge/a3', 'gw', { labels: { app: 'other' } }),
    podOf('edge/b', undefined),
    podOf('edge/c', 'done', {}, { status: { phase: 'Failed' } }),
    entryOf('edge/vm', { serviceAccount: 'vm', labels: { zone: 'x', ...labels } }),
    entryOf('edge/nobody', { labels }),
    podOf('shop/a', 'shopper'),
  ]);
  const of = (account: string) => mesh.registeredLabels('edge', account);
  assert.deepEqual(new Set(of('gw')), new Set([labels, { app: 'other' }]));
  assert.deepEqual(of('default'), [labels]);
  assert.deepEqual(of('vm'), [{ zone: 'x', ...labels }]);
  for (const account of ['done', 'shopper', '', 'other']) assert.deepEqual(of(account), []);
  assert.deepEqual(mesh.registeredLabels('nowhere', 'gw'), []);
});

test('pods of other clusters register labels only where the proxies of those clusters are served', () => {
  const resources = [podOf('edge/a', 'gw', { cluster: 'far' })];
  const registered = (servesOtherClusters: boolean) => {
    const mesh = meshOf(resources, { settings: { servesOtherClusters } });
    assert.equal(mesh.resources('Pod').size, 1);
    return mesh.registeredLabels('edge', 'gw');
  };
  assert.deepEqual(registered(false), []);
  assert.deepEqual(registered(true), [labels]);
});

test('a change names exactly the namespaces whose workloads may differ', () => {
  const before = meshOf([podOf('edge/a', 'gw'), entryOf('shop/vm', { serviceAccount: 'vm', labels })]);
  const concerned = (...args: Parameters<typeof step> extends [unknown, ...infer Rest] ? Rest : never) =>
    [...step(before, ...args).changes.workloads].sort();
  assert.deepEqual(concerned([podOf('edge/b', 'other'), podOf('new/a', 'gw')]), ['edge', 'new']);
  // One more, or one less, of the same.
  assert.deepEqual(concerned([podOf('edge/b', 'gw')]), []);
  assert.deepEqual(
    [...step(meshOf([podOf('edge/a', 'gw'), podOf('edge/b', 'gw')]), [], ['Pod/edge/b']).changes.workloads],
    [],
  );
  assert.deepEqual(concerned([podOf('edge/a', 'other')]), ['edge']);
  assert.deepEqual(concerned([podOf('edge/a', 'gw', { labels: { app: 'x' } })]), ['edge']);
  assert.deepEqual(concerned([podOf('edge/a', 'gw', {}, { status: { phase: 'Succeeded' } })]), ['edge']);
  assert.deepEqual(concerned([], [resourceKey('WorkloadEntry', 'shop', 'vm')]), ['shop']);
  // An address, or readiness, is not a matter of identity.
  assert.deepEqual(concerned([podOf('edge/a', 'gw', {}, { status: { phase: 'Running', podIP: '10.0.0.7' } })]), []);
  assert.deepEqual(concerned([entryOf('shop/vm', { serviceAccount: 'vm', labels, weight: 3 })]), []);
  assert.deepEqual(concerned([resource('Namespace', '/edge')]), []);
});

test('the cost of a changed pod does not depend on the number of pods in its namespace or on the number of queries', () => {
  let read = 0;
  const counted = (labelsOfPod: Record<string, string>) =>
    new Proxy(labelsOfPod, {
      ownKeys: (target) => {
        read++;
        return Reflect.ownKeys(target);
      },
    });
  const podWith = (name: string, version: string): AnyResource => {
    const made = podOf(`edge/${name}`, 'gw', { labels: { app: 'gateway', version } });
    return { ...made, meta: { ...made.meta, labels: counted({ app: 'gateway', version }) } } as AnyResource;
  };
  const before = meshOf(Array.from({ length: 1000 }, (_, index) => podWith(`p${index}`, 'v1')));
  const wholeMesh = read;
  assert.ok(wholeMesh >= 1000);
  read = 0;
  const { snapshot, changes } = step(before, [podWith('p7', 'v2')]);
  for (let gateways = 0; gateways < 50; gateways++) {
    assert.deepEqual(
      snapshot.registeredLabels('edge', 'gw').map(({ version }) => version),
      ['v1', 'v2'],
    );
  }
  assert.deepEqual([...changes.workloads], ['edge']);
  assert.ok(read <= 10, `labels were read ${read} times for one changed pod`);
});
