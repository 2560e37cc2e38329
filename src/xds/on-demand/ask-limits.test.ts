/** How much a proxy may ask for, and what counts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { byXdsType, XDS, type XdsType } from '../../core/xds-types.ts';
import { type EncodedResource, emptyBundle, type Parts } from '../../push/index.ts';
import { inline, Mesh, meshResource, service, sidecar } from '../../push/testing/mesh.ts';
import { demandedParts, neededFor } from '../server/demand/demanded-parts.ts';
import { EMPTY_REQUEST, newDemand, newShared } from '../testing/demand.ts';
import { MAX_ASKED } from './asked-names.ts';
import { concernedNames } from './concerned-names.ts';
import type { Demand } from './demand.ts';
import { leadsTo } from './leads-to.ts';
import { answerName } from './own-names.ts';
import type { SharedDemand } from './shared-demand.ts';

const ASKING = { mode: 'on-demand', workload: 'pod.shop', at: 0, since: 0 } as const;
const CONTENT: Parts = byXdsType((type) => [emptyBundle(type, 'view')]);

const numbered = (prefix: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, at) => `${prefix}${at}`);

function request({ names }: SharedDemand, subscribe: readonly string[], had: readonly string[] = []) {
  const initialVersions = new Map(had.map((name) => [name, 'v']));
  return { ...EMPTY_REQUEST, subscribe: names.of(subscribe), initialVersions };
}

/** Whether a request needs all virtual hosts, or all clusters, to be generated. */
function needsAll(demand: Demand, type: XdsType, of: ReturnType<typeof request>): readonly [boolean, boolean] {
  const hosts = demand.hostsFor(type, of, CONTENT, []);
  return [hosts === undefined, demand.clustersFor(type, of, CONTENT) === undefined];
}

test('a name that a proxy asks for again does not count again', () => {
  const shared = newShared();
  const demand = newDemand(shared);
  const asked = numbered('80/host', MAX_ASKED - 1);
  demand.receive('vhds', request(shared, asked), ASKING);
  assert.deepEqual(needsAll(demand, 'vhds', request(shared, [...asked, '80/other', '*'])), [false, false]);
  assert.deepEqual(needsAll(demand, 'vhds', request(shared, ['80/one', '80/two'])), [true, true]);
});

test('clusters that a proxy asks for count with hosts, endpoints do not', () => {
  const shared = newShared();
  const demand = newDemand(shared);
  demand.receive('vhds', request(shared, numbered('80/host', MAX_ASKED - 1)), ASKING);
  const clusters = request(shared, ['*', 'inbound|80||', 'outbound|80||a', 'outbound|80||b']);
  assert.deepEqual(needsAll(demand, 'cds', clusters), [true, true]);
  assert.deepEqual(needsAll(demand, 'cds', request(shared, ['*', 'inbound|80||', 'outbound|80||a'])), [false, false]);
  assert.deepEqual(needsAll(demand, 'eds', request(shared, numbered('outbound|80||', 2000))), [false, false]);
});

test('answers do not count among the hosts that a proxy had', () => {
  const shared = newShared();
  const hosts = numbered('80/host', MAX_ASKED);
  const again = (had: readonly string[]) => needsAll(newDemand(shared), 'vhds', request(shared, hosts, had));
  const [allHosts] = again([...hosts, ...hosts.map(answerName)]);
  assert.equal(allHosts, false);
  const [more] = again([...hosts, ...hosts.map(answerName), '80/one more']);
  assert.equal(more, true);
});

for (const type of ['vhds', 'cds'] as const)
  test(`a stream that names too many ${type} ends, also if it drops earlier ones`, () => {
    const shared = newShared();
    const demand = newDemand(shared);
    const ask = (from: number): void => {
      const names = Array.from({ length: 20_000 }, (_, at) => `${type === 'cds' ? 'outbound|' : '80/'}${from + at}`);
      demand.receive(type, request(shared, names), ASKING);
      demand.receive(type, { ...EMPTY_REQUEST, unsubscribe: shared.names.of(names) }, ASKING);
    };
    for (let round = 0; round < 10; round++) ask(round * 20_000);
    assert.throws(() => ask(200_000), /a stream may name at most 200000 resources of a type/);
  });

/** A proxy of a mesh in which a virtual host with this many routes is for hosts below `example`. */
async function withRoutes(routes: number, above = Number.POSITIVE_INFINITY) {
  const options = { concerned: concernedNames, leadsTo, laterClusters: { above }, canaryAbove: 0 };
  const services = ['a', 'b'].map((name) => service('shop', name));
  const mesh = new Mesh(inline, [...services, wildcard(routes)], options);
  const node = { ...sidecar('10.1.0.1', 'shop'), discoversVirtualHosts: true };
  let parts = (): void => {};
  const { session } = mesh.connect({ ...node, options: { configuration: 'on-demand' } }, () => {
    parts();
    return Promise.resolve('nothing');
  });
  await session.ready;
  const shared = newShared();
  const demand = newDemand(shared);
  demand.begin(() => parts());
  let has: Parts = CONTENT;
  parts = () => {
    has = demandedParts(session, demand);
  };
  parts();
  const ask = async (...names: readonly string[]): Promise<void> => {
    const asking = { ...request(shared, names), typeUrl: XDS.vhds.url };
    await neededFor(session, demand, asking);
    demand.receive('vhds', asking, ASKING);
    parts();
  };
  const hosts = () => has.vhds.flatMap((bundle) => bundle.resources());
  return { mesh, session, demand, ask, hosts };
}

function wildcard(routes: number) {
  const http = Array.from({ length: routes }, (_, at) => ({
    match: [{ uri: { prefix: `/${at}` } }],
    route: [{ destination: { host: 'a' } }],
  }));
  return meshResource('VirtualService', 'shop', 'any', { hosts: ['*.example'], http });
}

const bytesOf = (hosts: readonly EncodedResource[]): number =>
  hosts.reduce((sum, { fragment }) => sum + fragment.length, 0);
const hasWildcard = (hosts: readonly EncodedResource[]): boolean =>
  hosts.some(({ name }) => name.startsWith('80/*.example'));

for (const above of [1, Number.POSITIVE_INFINITY])
  test(`a proxy does not get a large virtual host for each of many names; all: ${above > 1}`, async () => {
    const { session, demand, ask, hosts } = await withRoutes(1000, above);
    await ask('80/one.example', '80/two.example');
    const bytes = bytesOf(hosts()) / 2;
    assert.ok(bytes > 100_000 && !demand.isOverLimit && !hasWildcard(hosts()));
    await ask(...numbered('80/', 1000).map((name) => `${name}.example`));
    assert.ok(demand.isOverLimit && hasWildcard(hosts()));
    assert.ok(bytesOf(hosts()) < 2 * bytes);
    assert.equal(session.laterHosts, undefined);
    session.close();
  });

test('where virtual hosts become too large, a proxy keeps what it has until all are generated', async () => {
  const { mesh, session, demand, ask, hosts } = await withRoutes(10, 1);
  await ask(...numbered('80/', 100).map((name) => `${name}.example`));
  mesh.change([wildcard(1000)]);
  await mesh.settled();
  assert.ok(demand.isOverLimit && hasWildcard(hosts()));
  assert.ok(bytesOf(hosts()) < 1_000_000);
  session.close();
});
