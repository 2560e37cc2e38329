import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GROUP_ANNOTATION, type Resource } from '../../resources/index.ts';
import { meshOf, resource, step } from '../testing/build.ts';
import { entryOfProxyKey, isEntryOfProxy, isPodOfProxy, podOfProxyKey } from './workloads-of-proxies.ts';

const podOf = (
  path: string,
  { labels = { app: 'web' }, account = 'web', ips = ['10.0.0.1'], phase = 'Running' } = {},
) =>
  resource(
    'Pod',
    path,
    {
      spec: { serviceAccountName: account },
      status: { phase, podIP: ips[0] ?? '', podIPs: ips.map((ip) => ({ ip })) },
    },
    { labels },
  ) as Resource<'Pod'>;

const PROXY = { namespace: 'shop', name: 'web', clusterId: '', addresses: ['10.0.0.1'], account: 'web' };

test('a proxy is of the Pod of its name if an address and the account agree', () => {
  const pod = podOf('shop/web', { ips: ['10.0.0.1', 'fd00::1'] });
  assert.ok(isPodOfProxy(pod, PROXY));
  assert.ok(isPodOfProxy(pod, { ...PROXY, account: undefined }), 'without a credential');
  assert.ok(isPodOfProxy(pod, { ...PROXY, addresses: ['192.0.2.1', 'fd00:0:0::1'] }));
  assert.ok(isPodOfProxy(podOf('shop/web', { account: '' }), PROXY), 'a Pod of a directory, without an account');
  assert.ok(!isPodOfProxy(pod, { ...PROXY, account: 'other' }));
  assert.ok(!isPodOfProxy(pod, { ...PROXY, addresses: ['10.0.0.2'] }));
  assert.ok(!isPodOfProxy(pod, { ...PROXY, addresses: [] }));
  assert.ok(!isPodOfProxy(podOf('shop/web', { ips: [] }), PROXY), 'its address is not known yet');
});

test('the cluster that a proxy states counts only where proxies of other clusters are served', () => {
  const key = (servesOtherClusters: boolean, clusterId: string) =>
    podOfProxyKey({ servesOtherClusters, clusterId: 'home' }, { ...PROXY, clusterId });
  for (const cluster of ['', 'home', 'far']) assert.equal(key(false, cluster), 'Pod/shop/web');
  assert.deepEqual([key(true, ''), key(true, 'home')], ['Pod/shop/web', 'Pod/shop/web']);
  assert.equal(key(true, 'far'), 'Pod/shop/web/far');
});

test('a change names exactly the Pods whose proxies may have other labels', () => {
  const before = meshOf([podOf('shop/web'), podOf('shop/other')]);
  const changed = (...pods: readonly Resource<'Pod'>[]) => [...step(before, pods).changes.labelled].sort();
  assert.deepEqual(changed(podOf('shop/web', { labels: { app: 'x' } })), ['Pod/shop/web']);
  assert.deepEqual(changed(podOf('shop/web', { account: 'x' }), podOf('shop/new')), ['Pod/shop/new', 'Pod/shop/web']);
  assert.deepEqual(changed(podOf('shop/web', { ips: ['10.0.0.2'] })), ['Pod/shop/web']);
  assert.deepEqual(changed(podOf('shop/web', { phase: 'Succeeded' })), []);
  assert.deepEqual([...step(before, [], ['Pod/shop/web']).changes.labelled], ['Pod/shop/web'], 'it may be a machine');
});

const entryOf = (
  labels: Readonly<Record<string, string>>,
  annotations = { [GROUP_ANNOTATION]: 'vm' },
  account = 'vm',
) =>
  resource(
    'WorkloadEntry',
    'shop/vm-192.0.2.7',
    { address: '192.0.2.7', serviceAccount: account, labels },
    {
      annotations,
    },
  ) as Resource<'WorkloadEntry'>;

type Group = Resource<'WorkloadGroup'>;

const MACHINE = { namespace: 'shop', group: 'vm', address: '192.0.2.7', network: '', account: 'vm' };

test('a machine has the WorkloadEntry that was registered for its group, account and address', () => {
  const groupOf = (network: string) => resource('WorkloadGroup', 'shop/vm', { template: { network } }) as Group;
  const keyOf = (stated: string, group?: Group) => entryOfProxyKey({ ...MACHINE, network: stated }, group);
  assert.equal(keyOf(''), 'WorkloadEntry/shop/vm-192.0.2.7');
  assert.deepEqual([keyOf('n1'), keyOf('n1', groupOf(''))], Array(2).fill('WorkloadEntry/shop/vm-192.0.2.7-n1'));
  assert.equal(keyOf('n1', groupOf('n2')), 'WorkloadEntry/shop/vm-192.0.2.7-n2', 'the network of its group');
  assert.equal(entryOfProxyKey({ ...MACHINE, group: 'not/a/name' }, undefined), undefined);
  assert.ok(isEntryOfProxy(entryOf({}), MACHINE));
  assert.ok(!isEntryOfProxy(entryOf({}), { ...MACHINE, account: 'other' }));
  assert.ok(!isEntryOfProxy(entryOf({}), { ...MACHINE, address: '192.0.2.8' }));
  assert.ok(!isEntryOfProxy(entryOf({}, { [GROUP_ANNOTATION]: 'other' }), MACHINE));
  assert.ok(!isEntryOfProxy(entryOf({}, {} as never), MACHINE), 'written by hand');
});

test('a change names registered WorkloadEntries with other labels, and no others', () => {
  const before = meshOf([entryOf({ app: 'vm' })]);
  const changed = (entry: Resource<'WorkloadEntry'>) => [...step(before, [entry]).changes.labelled];
  assert.deepEqual(changed(entryOf({ app: 'x' })), ['WorkloadEntry/shop/vm-192.0.2.7']);
  assert.deepEqual(changed(entryOf({ app: 'vm' }, { [GROUP_ANNOTATION]: 'vm', 'mesh.io/note': 'x' } as never)), []);
  assert.deepEqual(changed(entryOf({ app: 'vm' }, {} as never)), ['WorkloadEntry/shop/vm-192.0.2.7'], 'no longer one');
  const byHand = meshOf([entryOf({ app: 'vm' }, {} as never)]);
  assert.deepEqual([...step(byHand, [entryOf({ app: 'x' }, {} as never)]).changes.labelled], []);
});

test('a change names WorkloadGroups whose machines are registered in another network, and no others', () => {
  const group = (template: object) => resource('WorkloadGroup', 'shop/vm', { template });
  const before = meshOf([group({ network: 'dmz' })]);
  const changed = (template: object) => [...step(before, [group(template)]).changes.labelled];
  assert.deepEqual(changed({ network: 'edge' }), ['WorkloadGroup/shop/vm']);
  assert.deepEqual(changed({ network: 'dmz', labels: { app: 'x' } }), []);
  assert.deepEqual([...step(before, [], ['WorkloadGroup/shop/vm']).changes.labelled], ['WorkloadGroup/shop/vm']);
});
