import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encode, envoy } from '../../protobuf/index.ts';
import { patchClusters } from './clusters.ts';
import { combination, combinations, PatchIndex } from './patch-index.ts';
import { Patches } from './patches.ts';
import type { Patch } from './types.ts';

const { Cluster } = envoy.config.cluster.v3;
const COUNT = 1000;

const host = (index: number) => `svc-${index}.shop.svc.cluster.local`;

test('each of 1,000 clusters is compared with the patches for it, not with those for the others', () => {
  let compared = 0;
  const value = encode(Cluster, { altStatName: 'patched' });
  const patches = Array.from({ length: COUNT }, (_, index): Patch => {
    return {
      applyTo: 'CLUSTER',
      operation: 'MERGE',
      label: '',
      name: '',
      value,
      get match() {
        compared++;
        return { cluster: { service: host(index) } };
      },
    };
  });
  const clusters = Array.from({ length: COUNT }, (_, index) => {
    const name = `outbound|80||${host(index)}`;
    return { name, bytes: encode(Cluster, { name }), refs: [] };
  });
  const patched = patchClusters(clusters, new Patches(patches, true));
  assert.ok(patched.every(({ bytes }) => Cluster.decode(bytes).altStatName === 'patched'));
  // Once for the index, and once for its cluster.
  assert.equal(compared, 2 * COUNT);
});

/** Patches that ask for an item by text, '' for any; each changes it. */
const change = (asks: string, value = ''): Patch => ({
  applyTo: 'HTTP_ROUTE',
  operation: 'MERGE',
  label: value,
  name: asks,
  value: Buffer.from(value),
  match: {},
});
const BY_NAME = { keyOf: ({ name }: Patch) => name, keysOf: (item: string) => ['', item] };
const others = ['p', 'q', 'r', 's', 't'].map((name) => change(name));

test('an item finds the patches for it and those for any, in their order', () => {
  const index = new PatchIndex(
    [change('', '1'), change('a', '2'), ...others, change('', '3'), change('a', '4')],
    BY_NAME,
  );
  const labels = (item: string) => index.for(item).map(({ label }) => label);
  assert.deepEqual(labels('a'), ['1', '2', '3', '4']);
  assert.deepEqual(labels('b'), ['1', '3']);
});

test('an item that a patch changes is compared with the later patches as it is then', () => {
  const patches = [change('b', 'never'), change('a', 'b'), change('a', 'never'), change('b', 'c'), ...others];
  const index = new PatchIndex(patches, BY_NAME);
  const rename = (item: string, { name, value }: Patch) => (name === item ? Buffer.from(value).toString() : item);
  assert.equal(index.reduce('a', rename), 'c');
  assert.equal(
    index.reduce('a', (item, { name }) => (name === item ? undefined : item)),
    undefined,
  );
});

test('the properties that a patch matches are among the combinations of properties of an item', () => {
  const all = combinations('80', '', 'web');
  assert.equal(new Set(all).size, 4);
  for (const asked of [[80, '', 'web'], [80], [undefined, undefined, 'web'], []] as const) {
    const [port, subset, service] = asked;
    assert.ok(all.includes(combination(port, subset, service)));
  }
  assert.ok(!all.includes(combination(81, '', 'web')));
});
