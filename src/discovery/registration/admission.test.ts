import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ProxyNode } from '../../core/proxy.ts';
import { meshOf, pod, resource, service } from '../../model/testing/build.ts';
import type { AnyResource } from '../../resources/index.ts';
import { GROUP_ANNOTATION } from '../../resources/index.ts';
import { type AdmittedEntry, admitWorkload, MAX_PER_GROUP } from './admission.ts';
import { TEMPLATE, webGroup, webStream } from './testing/registering.ts';

const GROUP = webGroup();
const NODE = webStream('10.0.0.7', { LABELS: { app: 'payments', mesh: 'ingressgateway' } }).node;

function admitted(resources: readonly AnyResource[], node: Partial<ProxyNode> = {}): AdmittedEntry {
  const admission = admitWorkload({ ...NODE, ...node }, 'web', meshOf(resources));
  assert.ok('entry' in admission, JSON.stringify(admission));
  return admission.entry;
}

function refusal(resources: readonly AnyResource[], node: Partial<ProxyNode> = {}): string {
  const admission = admitWorkload({ ...NODE, ...node }, 'web', meshOf(resources));
  assert.ok('refused' in admission, JSON.stringify(admission));
  return admission.refused;
}

test('an admitted workload has the labels of its group, and its own address', () => {
  const { name, labels, annotations, spec, probed } = admitted([GROUP]);
  assert.equal(name, 'web-10.0.0.7');
  assert.deepEqual(labels, { tier: 'front', app: 'web' });
  assert.deepEqual(spec, { ...TEMPLATE, labels, address: '10.0.0.7' });
  assert.equal(annotations[GROUP_ANNOTATION], 'web');
  assert.equal(probed, false);
});

test('network and locality of the group take precedence over those that a workload states', () => {
  const own = { network: 'dmz', locality: 'us/b' };
  const stated = admitted([resource('WorkloadGroup', 'shop/web', { template: { serviceAccount: 'web' } })], own);
  assert.deepEqual([stated.name, stated.spec.network, stated.spec.locality], ['web-10.0.0.7-dmz', 'dmz', 'us/b']);
  const template = { ...TEMPLATE, network: 'edge' };
  const { name, spec } = admitted([resource('WorkloadGroup', 'shop/web', { template })], own);
  assert.deepEqual([name, spec.network, spec.locality], ['web-10.0.0.7-edge', 'edge', 'eu/a']);
});

test('the name of an IPv6 workload has no colons', () => {
  assert.equal(admitted([GROUP], { addresses: ['fd00::7'] }).name, 'web-fd00--7');
});

test('a workload whose certificate does not fit the group is refused', () => {
  const identity = { trustDomain: 'cluster.local', namespace: 'shop', serviceAccount: 'web' };
  const wrong: readonly (ProxyNode['identity'] | undefined)[] = [
    { ...identity, serviceAccount: 'api' },
    { ...identity, namespace: 'other' },
    { ...identity, trustDomain: 'other.example' },
  ];
  for (const each of wrong) assert.match(refusal([GROUP], { identity: each }), /its identity is .* shop\/web$/);
  assert.match(refusal([GROUP], { identity: undefined }), /no certificate/);
  assert.match(refusal([]), /no WorkloadGroup shop\/web/);
});

test('an address that something else has is refused', () => {
  const registered = { annotations: { [GROUP_ANNOTATION]: 'web' } };
  const rows: readonly (readonly [resource: AnyResource, reason: RegExp])[] = [
    [pod('other/p', '10.0.0.7'), /an address of Pod\/other\/p/],
    [service('other/s', { clusterIP: '10.0.0.7' }), /an address of Service\/other\/s/],
    [resource('Node', '/n', { status: { addresses: [{ type: 'InternalIP', address: '10.0.0.7' }] } }), /of Node n/],
    [resource('WorkloadEntry', 'other/vm', { address: '10.0.0.7' }), /of WorkloadEntry other\/vm/],
    [resource('WorkloadEntry', 'other/vm', { address: '10.0.0.7', network: 'n' }), /of WorkloadEntry other\/vm/],
    [resource('WorkloadEntry', 'shop/web-10.0.0.7', { address: '10.0.0.7' }), /was not registered for the group/],
  ];
  for (const [other, reason] of rows) assert.match(refusal([GROUP, other]), reason);
  const own = resource('WorkloadEntry', 'shop/web-10.0.0.7', { address: '10.0.0.7' }, registered);
  assert.equal(admitted([GROUP, own]).name, 'web-10.0.0.7');
});

test('an address at which nobody reaches the workload is refused', () => {
  for (const address of ['127.0.0.1', '0.0.0.0', '169.254.1.1', '224.0.0.1', '::1', 'fe80::1', 'ff02::1']) {
    assert.match(refusal([GROUP], { addresses: [address] }), /other workloads cannot reach it at/, address);
  }
});

test('the number of workloads of a group is limited', () => {
  const annotations = { [GROUP_ANNOTATION]: 'web' };
  const others = Array.from({ length: MAX_PER_GROUP }, (_, index) => {
    const address = `10.1.${index >> 8}.${index & 255}`;
    return resource('WorkloadEntry', `shop/web-${address}`, { address, serviceAccount: 'web' }, { annotations });
  });
  assert.match(refusal([GROUP, ...others]), /the group already has 1000 workloads/);
  assert.equal(admitted([GROUP, ...others.slice(1)]).name, 'web-10.0.0.7');
});

test('thousands of workloads that are looked at read the entries once', () => {
  const others = Array.from({ length: 100 }, (_, index) =>
    resource('WorkloadEntry', `other/vm${index}`, { address: `10.2.0.${index}` }),
  );
  const snapshot = meshOf([GROUP, ...others]);
  const entries = snapshot.resources('WorkloadEntry');
  const values = entries.values.bind(entries);
  let reads = 0;
  Object.assign(entries, {
    values: () => {
      reads++;
      return values();
    },
  });
  for (let index = 0; index < 200; index++) {
    const admission = admitWorkload({ ...NODE, addresses: [`10.2.0.${index}`] }, 'web', snapshot);
    assert.equal('entry' in admission, index >= 100, JSON.stringify(admission));
  }
  assert.ok(reads <= 1, String(reads));
});
