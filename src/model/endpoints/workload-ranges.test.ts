/** The ranges of workloads contain every address of a Pod, a node or an API server, and are few. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { RangeIndex } from '../../generate/common/range-index.ts';
import { type AnyResource, keyOf } from '../../resources/kinds/types.ts';
import { pod, resource } from '../testing/build.ts';
import { MAX_WORKLOAD_RANGES, NO_WORKLOAD_RANGES, nextWorkloadRanges } from './workload-ranges.ts';

function rangesOf(documents: readonly AnyResource[]): readonly string[] {
  const changed = documents.map((after) => ({ key: keyOf(after), before: undefined, after }));
  return nextWorkloadRanges(NO_WORKLOAD_RANGES, changed).ranges;
}

const podsIn = (prefix: string, count: number, more = '') =>
  Array.from({ length: count }, (_, index) => pod(`a/p${prefix}${index}`, `${prefix}${index}${more}`));

test('in a small mesh they are the addresses', () => {
  const node = resource('Node', '/n1', { status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] } });
  const finished = resource('Pod', 'a/done', { spec: {}, status: { phase: 'Failed', podIP: '10.0.0.8' } });
  const subsets = [{ addresses: [{ ip: '192.0.2.2' }, { ip: '10.0.0.9', targetRef: { kind: 'Pod', name: 'x' } }] }];
  const api = resource('Endpoints', 'default/kubernetes', { subsets });
  const others = resource('Endpoints', 'a/kubernetes', { subsets });
  const twice = [
    pod('a/x', '10.0.0.1'),
    pod('b/x', '10.0.0.1'),
    pod('a/six', '2001:db8::7'),
    pod('a/mapped', '::ffff:10.0.0.3'),
  ];
  assert.deepEqual(rangesOf([...twice, node, finished, api, others]), [
    '10.0.0.1/32',
    '10.0.0.3/32',
    '192.0.2.1/32',
    '192.0.2.2/32',
    '2001:db8:0:0:0:0:0:7/128',
  ]);
});

test('in a larger mesh they are the blocks that contain addresses, few for each address family', () => {
  const many = MAX_WORKLOAD_RANGES + 1;
  assert.equal(rangesOf(podsIn('10.0.0.', MAX_WORKLOAD_RANGES)).length, MAX_WORKLOAD_RANGES);
  assert.deepEqual(rangesOf(podsIn('10.0.0.', many)), ['10.0.0.0/24']);
  assert.deepEqual(rangesOf([...podsIn('10.0.', many, '.1'), pod('a/six', '2001:db8::7')]), [
    '10.0.0.0/20',
    '10.0.16.0/20',
    '10.0.32.0/20',
    '10.0.48.0/20',
    '10.0.64.0/20',
    '2001:db8:0:0:0:0:0:7/128',
  ]);
  assert.deepEqual(rangesOf(podsIn('2001:db8::', many)), ['2001:db8:0:0:0:0:0:0/64']);
});

const address = fc.oneof(
  fc.tuple(fc.nat(3), fc.nat(255), fc.nat(255)).map(([a, b, c]) => `10.${a}.${b}.${c}`),
  fc.tuple(fc.nat(3), fc.nat(0xffff)).map(([a, b]) => `2001:db8:${a}::${b.toString(16)}`),
);
const history = fc.array(fc.tuple(fc.nat(150), fc.option(address)), { maxLength: 250 });

test('after any history they are those of the workloads that are left, few, and contain all of them', () => {
  fc.assert(
    fc.property(history, (steps) => {
      const pods = new Map<string, AnyResource>();
      let found = NO_WORKLOAD_RANGES;
      for (const [number, ip] of steps) {
        const after = ip === null ? undefined : pod(`a/p${number}`, ip);
        const key = `Pod/a/p${number}`;
        const next = nextWorkloadRanges(found, [{ key, before: pods.get(key), after }]);
        assert.equal(next.ranges === found.ranges, JSON.stringify(next.ranges) === JSON.stringify(found.ranges));
        found = next;
        if (after === undefined) pods.delete(key);
        else pods.set(key, after);
      }
      const left = [...pods.values()];
      assert.deepEqual(found.ranges, rangesOf(left));
      assert.ok(found.ranges.length <= 2 * MAX_WORKLOAD_RANGES);
      const index = new RangeIndex(found.ranges);
      for (const { content } of left) {
        const { podIP } = (content as { status: { podIP: string } }).status;
        assert.notEqual(index.around(podIP), undefined, podIP);
      }
    }),
    { numRuns: 60 },
  );
});
