/** Why proxies on demand hold what they hold. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { inline, Mesh, meshResource, service, sidecar } from '../../push/testing/mesh.ts';
import type { ProxySession } from '../../push/types.ts';
import { EMPTY_REQUEST, newDemand, newShared } from '../testing/demand.ts';
import { MAX_ASKED } from './asked-names.ts';
import type { Demand } from './demand.ts';
import { answerName, madeName } from './own-names.ts';
import type { SharedDemand } from './shared-demand.ts';

const ROUTES = '80';
const DNS = 'shop.svc.cluster.local';
const hostOf = (name: string) => `${ROUTES}/${name}.${DNS}:80`;
const clusterOf = (name: string) => `outbound|80||${name}.${DNS}`;

const mesh = new Mesh(inline, [
  ...['a', 'b', 'c', 'log'].map((name) => service('shop', name)),
  meshResource('VirtualService', 'shop', 'stars', {
    hosts: ['*.stars.example'],
    http: [{ route: [{ destination: { host: 'c' } }] }],
  }),
  meshResource('VirtualService', 'shop', 'b', {
    hosts: ['b'],
    http: [{ route: [{ destination: { host: 'b' } }], mirror: { host: 'c' } }],
  }),
]);
let session: ProxySession;
before(async () => {
  const node = { ...sidecar('10.1.0.1', 'shop'), discoversVirtualHosts: true };
  ({ session } = mesh.connect({ ...node, options: { configuration: 'learned' } as const }));
  await session.ready;
});
after(() => session.close());

function ask(shared: SharedDemand, demand: Demand, hosts: readonly string[], at: number, had: readonly string[] = []) {
  const subscribe = shared.names.of(hosts.map((host) => `${ROUTES}/${host}`));
  const initialVersions = new Map(had.map((name) => [name, 'version']));
  demand.receive(
    'vhds',
    { ...EMPTY_REQUEST, subscribe, initialVersions },
    { mode: 'learned', workload: 'one.shop', at, since: 0 },
  );
  demand.parts(session.content(), 'learned');
}

function heldBy(demand: Demand) {
  const parts = demand.parts(session.content(), 'learned');
  const held = demand.explain(session.content(), parts, 'learned');
  assert.ok(held);
  return held;
}

const statusOf = (demand: Demand) => demand.status(session.content(), 'learned');

test('a host and its clusters are held because the proxy has asked for them, by each name at its time', () => {
  const shared = newShared();
  const demand = newDemand(shared);
  ask(shared, demand, ['b', 'nowhere.example'], 1000);
  ask(shared, demand, [`b.${DNS}`], 2000);
  const held = heldBy(demand);
  const asked = [
    { because: 'asked', host: 'b', at: 1000 },
    { because: 'asked', host: `b.${DNS}`, at: 2000 },
  ];
  assert.deepEqual(held.why('vhds', hostOf('b')), asked);
  for (const type of ['cds', 'eds'] as const)
    for (const name of ['b', 'c'])
      assert.deepEqual(
        held.why(type, clusterOf(name)),
        asked.map((each) => ({ ...each, via: hostOf('b') })),
        `${type} ${name}`,
      );
  for (const [type, name] of [
    ['vhds', hostOf('a')],
    ['cds', clusterOf('a')],
    ['eds', clusterOf('a')],
    ['cds', 'outbound|80||nobody.example'],
  ] as const)
    assert.deepEqual(held.why(type, name), [], name);
  const counts = { asked: 3, unknown: 1, learned: 0, named: 0, kept: 0 };
  assert.deepEqual(statusOf(demand), { mode: 'learned', ...counts });
});

test('what it holds has the clusters and endpoints of its hosts, and no answers', () => {
  const shared = newShared();
  const demand = newDemand(shared);
  ask(shared, demand, ['a', 'nowhere.example'], 1000);
  const held = heldBy(demand);
  const names = (type: 'vhds' | 'cds' | 'eds') =>
    held.parts(type).flatMap((bundle) => bundle.resources().map(({ name }) => name));
  assert.deepEqual(names('vhds'), [hostOf('a'), madeName(`${ROUTES}/nowhere.example`)]);
  assert.deepEqual(
    names('cds').filter((name) => name.startsWith('outbound|')),
    [clusterOf('a')],
  );
  assert.deepEqual(names('eds'), [clusterOf('a')]);
  const clustersOfContent = held.of(session.content()).cds.flatMap((bundle) => bundle.resources());
  assert.deepEqual(
    clustersOfContent,
    held.parts('cds').flatMap((bundle) => bundle.resources()),
  );
});

test('hosts with wildcards and unknown hosts are held for the names that the proxy has asked for', () => {
  const shared = newShared();
  const demand = newDemand(shared);
  ask(shared, demand, ['x.stars.example', 'nowhere.example'], 1000);
  const held = heldBy(demand);
  const asked = (host: string) => [{ because: 'asked', host, at: 1000 }];
  assert.deepEqual(held.why('vhds', `${ROUTES}/*.stars.example:80`), asked('x.stars.example'));
  assert.deepEqual(held.why('vhds', madeName(`${ROUTES}/x.stars.example`)), asked('x.stars.example'));
  assert.deepEqual(held.why('vhds', madeName(`${ROUTES}/nowhere.example`)), asked('nowhere.example'));
  assert.deepEqual(held.why('vhds', `${ROUTES}/allow_any`), asked('nowhere.example'));
  assert.equal(statusOf(demand)?.unknown, 1);
});

test('a learned host says which workload has asked for it, until the proxy asks itself', () => {
  const shared = newShared();
  const [first, second] = [newDemand(shared), newDemand(shared)];
  ask(shared, first, ['a'], 1000);
  second.parts(session.content(), 'learned');
  assert.deepEqual(heldBy(second).why('vhds', hostOf('a')), [{ because: 'learned', from: 'one.shop' }]);
  assert.deepEqual(heldBy(second).why('cds', clusterOf('a')), [
    { because: 'learned', from: 'one.shop', via: hostOf('a') },
  ]);
  assert.deepEqual(heldBy(first).why('vhds', hostOf('a')), [{ because: 'asked', host: 'a', at: 1000 }]);
  assert.deepEqual(
    [first, second].map((demand) => [statusOf(demand)?.asked, statusOf(demand)?.learned]),
    [
      [1, 0],
      [0, 1],
    ],
  );
  ask(shared, second, [`a.${DNS}`], 3000);
  assert.deepEqual(heldBy(second).why('vhds', hostOf('a')), [{ because: 'asked', host: `a.${DNS}`, at: 3000 }]);
});

test('what a proxy reports when it reconnects is kept; a name that it reports no answer for was asked for now', () => {
  const shared = newShared();
  const demand = newDemand(shared);
  const before = { ...EMPTY_REQUEST, initialVersions: new Map([[clusterOf('log'), 'version']]) };
  demand.receive('cds', before, { mode: 'learned', workload: 'one.shop', at: 4000, since: 0 });
  ask(shared, demand, ['a', 'b'], 5000, [hostOf('a'), answerName(`${ROUTES}/a`)]);
  const held = heldBy(demand);
  assert.deepEqual(held.why('vhds', hostOf('a')), [{ because: 'kept' }]);
  assert.deepEqual(held.why('vhds', hostOf('b')), [{ because: 'asked', host: 'b', at: 5000 }]);
  assert.deepEqual(held.why('cds', clusterOf('log')), [{ because: 'kept' }]);
  assert.deepEqual([statusOf(demand)?.kept, statusOf(demand)?.learned], [1, 0]);
});

test('a cluster that Envoy asks for is held because a TCP connection needs it', () => {
  const demand = newDemand(newShared());
  const { names } = newShared();
  const request = { ...EMPTY_REQUEST, subscribe: names.of([clusterOf('log')]) };
  demand.receive('cds', request, { mode: 'learned', workload: 'one.shop', at: 6000, since: 0 });
  assert.deepEqual(heldBy(demand).why('cds', clusterOf('log')), [{ because: 'connection', at: 6000 }]);
  assert.deepEqual([statusOf(demand)?.asked, statusOf(demand)?.learned, statusOf(demand)?.kept], [1, 0, 0]);
});

test('hosts that its Sidecar names are held without being asked for', () => {
  const demand = newDemand(newShared());
  const named = [`a.${DNS}`];
  const held = demand.explain(session.content(), demand.parts(session.content(), 'learned', { named }), 'learned');
  assert.deepEqual(held?.why('cds', clusterOf('a')), [{ because: 'named', via: hostOf('a') }]);
  const { named: count, learned } = demand.status(session.content(), 'learned') ?? {};
  assert.deepEqual([count, learned], [1, 0]);
});

test('what no application asks for is needed from the start', () => {
  const held = heldBy(newDemand(newShared()));
  for (const [type, name] of [
    ['cds', 'PassthroughCluster'],
    ['lds', 'virtualOutbound'],
    ['rds', ROUTES],
  ] as const)
    assert.deepEqual(held.why(type, name), [{ because: 'start' }], name);
});

test('a proxy over the limit gets everything, whatever it has asked for', () => {
  const shared = newShared();
  const demand = newDemand(shared);
  ask(shared, demand, ['a', ...Array.from({ length: MAX_ASKED }, (_, at) => `host-${at}.example`)], 1000);
  assert.equal(statusOf(demand)?.whole, 'limit');
  assert.deepEqual(heldBy(demand).why('vhds', hostOf('b')), [{ because: 'whole' }]);
  assert.deepEqual(heldBy(demand).why('cds', clusterOf('log')).at(0)?.because, 'whole');
});
