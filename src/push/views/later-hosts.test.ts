/** Virtual hosts that are generated when proxies ask for them, without jobs; with jobs: see `src/xds/server/demand`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inline, Mesh, service, sidecar, turns } from '../testing/mesh.ts';
import { HostsOnAsk } from './later-hosts.ts';
import { Waiters } from './waiters.ts';

const COUNT = 4;
const NO_ANSWER = { viewKey: '', gone: false, units: [], milliseconds: {}, findings: [], failures: [], lists: {} };

test('nothing is wanted in a view that turns out to be small, and nobody waits', async () => {
  const services = Array.from({ length: COUNT }, (_, at) => service('shop', `s${at}`, { clusterIP: `10.9.1.${at}` }));
  const mesh = new Mesh(inline, services);
  const node = { ...sidecar('10.1.0.1', 'shop'), discoversVirtualHosts: true };
  const { session } = mesh.connect({ ...node, options: { configuration: 'on-demand' } });
  await session.ready;
  const view = [...mesh.engine.views()].find(({ view: { part } }) => part === 'outbound')?.view;
  assert.ok(view);
  const hosts = new HostsOnAsk(
    () => {},
    () => false,
  );
  hosts.begin(view, mesh.engine.snapshot, COUNT - 1);
  const waits = hosts.need(['80/s1'], session);
  assert.ok(waits !== undefined && hosts.areWanted);
  // The job has failed, and is taken again when some services are gone.
  hosts.begin(view, mesh.engine.snapshot, COUNT);
  assert.equal(hosts.areWanted, false);
  const selection = hosts.selection({ of: 'all', isStep: false });
  hosts.generated(selection, { ...NO_ANSWER, complete: ['vhds'] });
  await waits;
  session.close();
});

test('a proxy that has left the view does not wait for what others of it still wait for', async () => {
  const waiters = new Waiters();
  const [one, other] = [{}, {}];
  const over: string[] = [];
  const wait = (what: string, by?: object) =>
    void waiters.add(what === 'all' ? undefined : new Set(['80/s1']), by).then(() => over.push(what));
  wait('one', one);
  wait('other', other);
  wait('all', one);
  waiters.left(one);
  await turns();
  assert.deepEqual(over, ['one']);
  waiters.resolve((names) => names?.has('80/s1') === true);
  await turns();
  assert.deepEqual(over, ['one', 'other']);
});
