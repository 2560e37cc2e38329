import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Memos } from '../../core/memo.ts';
import type { Endpoint, MergedDestinationRule as Rule } from '../../model/types/types.ts';
import { defaultMeshConfig } from '../../resources/index.ts';
import { labelsRead } from './classes.ts';
import { comparedLabels, labelsForFailover, priorityLabels, rankOf } from './failover-priority.ts';

const NETWORK = 'topology.mesh.io/network';
const REGION = 'topology.kubernetes.io/region';

function endpoint(labels: Record<string, string>, locality = '', network = ''): Endpoint {
  return { labels, locality, network } as Endpoint;
}

/** The ranks of the endpoints for a proxy. */
function ranks(failoverPriority: string[], endpoints: readonly Endpoint[], proxy: Endpoint): number[] {
  const setting = { failoverPriority };
  const labels = labelsForFailover(new Set(comparedLabels(setting)), proxy);
  const { priorities } = priorityLabels(new Memos(), endpoints, setting, labels);
  return endpoints.map((each) => rankOf(priorities, each));
}

test('endpoints rank by the first label that they do not share', () => {
  const endpoints = [
    endpoint({ app: 'a', v: '1' }),
    endpoint({ app: 'a', v: '2' }),
    endpoint({ app: 'b', v: '1' }),
    endpoint({ app: 'b', v: '2' }),
  ];
  assert.deepEqual(ranks(['app', 'v'], endpoints, endpoint({ app: 'a', v: '1' })), [0, 1, 2, 2]);
  assert.deepEqual(ranks(['v', 'app'], endpoints, endpoint({ app: 'a', v: '1' })), [0, 2, 1, 2]);
});

test('a label may name the value, and a label that neither has is shared', () => {
  const endpoints = [endpoint({ v: '1' }), endpoint({ v: '2' }), endpoint({})];
  assert.deepEqual(ranks(['v=2'], endpoints, endpoint({ v: '1' })), [1, 0, 1]);
  assert.deepEqual(ranks(['v'], endpoints, endpoint({})), [1, 1, 0]);
  assert.deepEqual(ranks(['v'], endpoints, endpoint({ v: 'none has this' })), [1, 1, 1]);
});

test('labels of the topology are those of locality and network', () => {
  const endpoints = [endpoint({}, 'r1/z1', 'n1'), endpoint({}, 'r2/z1', 'n1'), endpoint({}, 'r1/z1', 'n2')];
  assert.deepEqual(ranks([REGION], endpoints, endpoint({}, 'r1/z9')), [0, 1, 0]);
  assert.deepEqual(ranks([REGION], endpoints, endpoint({ [REGION]: 'r2' })), [1, 0, 1]);
});

test('a network that is first decides above all others, which are compared in other networks too', () => {
  const endpoints = ['n1', 'n2'].flatMap((network) => [endpoint({}, 'r1', network), endpoint({}, 'r2', network)]);
  assert.deepEqual(ranks([NETWORK, REGION], endpoints, endpoint({}, 'r1', 'n1')), [0, 1, 2, 3]);
});

test('values that no endpoint has make one result', () => {
  const endpoints = [endpoint({ v: '1' })];
  const seen = Array.from({ length: 100 }, (_, n) =>
    JSON.stringify(priorityLabels(new Memos(), endpoints, { failoverPriority: ['v'] }, { v: `x${n}` }).priorities),
  );
  assert.equal(new Set(seen).size, 1);
});

test('labels after one that no endpoint shares make no difference', () => {
  const endpoints = [endpoint({ app: 'a', v: '1' }), endpoint({ app: 'b', v: '2' })];
  const of = (labels: Record<string, string>) =>
    priorityLabels(new Memos(), endpoints, { failoverPriority: ['app', 'v'] }, labels).priorities;
  assert.deepEqual(of({ app: 'a', v: '2' }), [
    ['app', 'a'],
    ['v', null],
  ]);
  assert.deepEqual(of({ app: 'c', v: '1' }), of({ app: 'd', v: '2' }));
});

test('labels count only until a service would have too many different assignments', () => {
  const labels = (n: number) => ({ zone: `z${n % 10}`, pod: `web-${n}` });
  const endpoints = Array.from({ length: 1000 }, (_, n) => endpoint(labels(n), 'r1', 'n1'));
  const of = (failoverPriority: string[], clusters?: number) =>
    priorityLabels(new Memos(), endpoints, { failoverPriority }, { zone: 'z1', pod: 'web-1' }, clusters);
  assert.deepEqual(of(['zone', 'pod']), { priorities: [['zone', 'z1']], ignored: ['pod'] });
  assert.deepEqual(of(['pod', 'zone']), { priorities: [], ignored: ['pod', 'zone'] });
  assert.deepEqual(of(['pod=web-1', 'zone']).ignored, []);
  assert.deepEqual(of([NETWORK, 'pod']).ignored, ['pod']);
  assert.deepEqual(of(['zone'], 100).ignored, ['zone']);
  // As many as a service of this size may have.
  assert.deepEqual(priorityLabels(new Memos(), endpoints.slice(0, 200), { failoverPriority: ['pod'] }, {}).ignored, []);
});

test('the order that the tree of values gives is that of comparing all labels', () => {
  const values = ['', '1', '2'];
  const all = values.flatMap((a) => values.flatMap((b) => values.map((c) => ({ a, b, c }))));
  const written = (labels: Record<string, string>) =>
    Object.fromEntries(Object.entries(labels).filter(([, value]) => value !== ''));
  const endpoints = all.filter((_, n) => n % 4 !== 1).map((labels) => endpoint(written(labels), labels.a, labels.b));
  for (const failoverPriority of [
    ['a', 'b', 'c'],
    [NETWORK, REGION, 'c'],
    ['b=2', 'c', 'a'],
    ['c', NETWORK],
  ]) {
    for (const proxy of all.map((labels) => endpoint(written(labels), labels.a, labels.b))) {
      const plain = failoverPriority.map((entry): [string, string] => {
        const [name = '', value] = entry.split('=');
        const compared = labelsForFailover(new Set([name]), proxy);
        return [name, value ?? compared?.[name] ?? ''];
      });
      assert.deepEqual(
        ranks(failoverPriority, endpoints, proxy),
        endpoints.map((each) => rankOf(plain, each)),
      );
    }
  }
});

test('compared labels that a proxy does not have cost it nothing', () => {
  const compared = new Set([...Array.from({ length: 10_000 }, (_, n) => `label-${n}`), 'v', 'app', REGION]);
  const proxy = endpoint({ v: '1', app: 'web', pod: 'web-7' }, 'r1');
  assert.equal(JSON.stringify(labelsForFailover(compared, proxy)), `{"app":"web","${REGION}":"r1","v":"1"}`);
  assert.equal(labelsForFailover(compared, endpoint({ pod: 'web-7' })), undefined);
});

test('labels with names of object methods are labels like others', () => {
  assert.deepEqual(ranks(['constructor'], [endpoint({}), endpoint({ constructor: 'x' })], endpoint({})), [0, 1]);
});

test('labels that only the rules of other hosts compare make no difference', () => {
  const rule = (...failoverPriority: string[]) =>
    ({ subsets: [], trafficPolicy: { loadBalancer: { localityLbSetting: { failoverPriority } } } }) as unknown as Rule;
  const mesh = defaultMeshConfig();
  const labels = { app: 'web', pod: 'web-7' };
  assert.equal(labelsRead(mesh, rule('app', 'zone=a'), labels), '{"app":"web"}');
  assert.equal(labelsRead(mesh, rule(), labels), '');
  assert.equal(labelsRead(mesh, undefined, labels), '');
});
