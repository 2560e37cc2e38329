/** How much a proxy may ask for, and what counts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { byXdsType, type XdsType } from '../../core/xds-types.ts';
import { emptyBundle, type Parts } from '../../push/index.ts';
import { EMPTY_REQUEST, newDemand, newShared } from '../testing/demand.ts';
import { MAX_ASKED } from './asked-names.ts';
import type { Demand } from './demand.ts';
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
