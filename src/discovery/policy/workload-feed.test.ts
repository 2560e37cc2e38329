/** Workloads as the policy thread finds them: records of the feed in its table. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Snapshot } from '../../model/index.ts';
import { endpoints, meshOf, pod, resource, service, step } from '../../model/testing/build.ts';
import { applyChanges } from '../../model/testing/steps.ts';
import { WorkloadTable } from '../../policy/attributes/workloads.ts';
import type { AnyResource } from '../../resources/index.ts';
import { WorkloadFeed } from './workload-feed.ts';

const NETWORK = 'topology.mesh.io/network';
const WEB = 'td/ns/shop/sa/web';

const web = (name: string, address: string, network?: string): AnyResource =>
  pod(`shop/${name}`, address, network === undefined ? {} : { labels: { [NETWORK]: network } }, {
    serviceAccountName: 'web',
  });
const entry = (name: string, address: string, network: string): AnyResource =>
  resource('WorkloadEntry', `shop/${name}`, { address, network, serviceAccount: 'web' });

/** A thread that has started with this mesh. */
function started(snapshot: Snapshot) {
  const [feed, table] = [new WorkloadFeed(), new WorkloadTable()];
  table.change(feed.all(snapshot));
  const found = (address: string) => table.find(address, WEB)?.name;
  const served = (address: string) => {
    const record = table.find(address, WEB);
    return record && table.servicesOf(record).map(({ name }) => name);
  };
  return { feed, table, found, served };
}

test('an address of several networks is of no workload, until one is left', () => {
  const mesh = meshOf([web('near', '10.0.0.1', 'n1'), web('only', '10.0.0.2', 'n1')]);
  const { feed, table, found } = started(mesh);
  assert.deepEqual([found('10.0.0.1'), found('10.0.0.2')], ['near', 'only']);
  const more = step(mesh, [web('far', '10.0.0.1', 'n2'), entry('machine', '10.0.0.2', 'n3')]);
  table.change(feed.changes(more));
  assert.deepEqual([found('10.0.0.1'), found('10.0.0.2')], [undefined, undefined]);
  const caller = { key: 'x', namespace: 'shop', principal: WEB, address: '10.0.0.1' };
  assert.equal(table.ownOf(caller, '10.0.0.1'), undefined);
  const { principal: _, ...trusted } = caller;
  assert.equal(table.ownOf(trusted, '10.0.0.1'), undefined);
  // A thread that starts now.
  assert.equal(started(more.snapshot).found('10.0.0.1'), undefined);
  table.change(feed.changes(step(more.snapshot, [], ['Pod/shop/near', 'WorkloadEntry/shop/machine'])));
  assert.deepEqual([found('10.0.0.1'), found('10.0.0.2')], ['far', 'only']);
});

test('workloads of one network with an address are found, and those of other identities do not matter', () => {
  const other = pod('bank/other', '10.0.0.1', { labels: { [NETWORK]: 'n2' } }, { serviceAccountName: 'web' });
  const { found } = started(meshOf([web('one', '10.0.0.1', 'n1'), entry('two', '10.0.0.1', 'n1'), other]));
  assert.equal(found('10.0.0.1'), 'one');
});

test('a Pod without a Service is found with the labels that it has now', () => {
  const job = (labels: Readonly<Record<string, string>>) =>
    pod('shop/job', '10.0.0.9', { labels }, { serviceAccountName: 'web' });
  const mesh = meshOf([job({ tier: 'old', app: 'job' })]);
  const { feed, table } = started(mesh);
  const labels = () => table.find('10.0.0.9', WEB)?.labels;
  assert.deepEqual(labels(), { tier: 'old', app: 'job' });
  table.change(feed.changes(step(mesh, [job({ tier: 'new' })])));
  assert.deepEqual(labels(), { tier: 'new' });
});

test('workloads follow a change of the networks of the mesh', () => {
  const mesh = meshOf([web('near', '10.0.0.1', 'n1'), web('far', '10.0.0.1')]);
  const { feed, table, found } = started(mesh);
  assert.equal(found('10.0.0.1'), undefined);
  const networks = { networks: { n1: { endpoints: [{ fromCidr: '10.0.0.0/8' }], gateways: [] } } };
  table.change(feed.changes(applyChanges(mesh, { changes: [], networks })));
  assert.equal(found('10.0.0.1'), 'near');
});

test('the services of a workload are those of its network, whichever changes last', () => {
  const at = (name: string, network: string) =>
    resource('ServiceEntry', `shop/${name}`, {
      hosts: [`${name}.example`],
      ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
      resolution: 'STATIC',
      endpoints: [{ address: '10.0.0.1', network }],
    });
  const mesh = meshOf([web('near', '10.0.0.1', 'n1'), at('near', 'n1')]);
  const { feed, table, served } = started(mesh);
  assert.deepEqual(served('10.0.0.1'), ['near.example']);
  const more = step(mesh, [at('far', 'n2')]);
  table.change(feed.changes(more));
  assert.deepEqual(served('10.0.0.1'), ['near.example']);
  assert.deepEqual(started(more.snapshot).served('10.0.0.1'), ['near.example']);
  table.change(feed.changes(step(more.snapshot, [], ['ServiceEntry/shop/far'])));
  assert.deepEqual(served('10.0.0.1'), ['near.example']);
});

test('the services at an IPv6 address are found after a change, too', () => {
  const mesh = meshOf([web('web', 'fd00::1')]);
  const { feed, table, served } = started(mesh);
  table.change(feed.changes(step(mesh, [service('shop/web'), endpoints('shop/web', ['fd00::1'])])));
  assert.deepEqual(served('fd00::1'), ['web']);
});
