import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { serviceOf } from '../testing/routes.ts';
import { mergeChains } from './chain-merge.ts';
import type { L4Chain } from './l4-chains.ts';

function chain(owner: string, serverNames: readonly string[] = [], ranges: readonly string[] = []): L4Chain {
  return {
    owner,
    service: serviceOf(owner, []),
    writers: [],
    serverNames,
    ranges,
    filters: [{ name: owner, typedConfig: { typeUrl: '', value: new Uint8Array() } }],
  };
}

function matchesOf(chains: readonly L4Chain[]): string[] {
  return mergeChains(chains).chains.map(({ filterChainMatch, filters }) => {
    const ranges = filterChainMatch?.prefixRanges?.map((range) => `${range.addressPrefix}/${range.prefixLen?.value}`);
    const names = filterChainMatch?.serverNames;
    return `${filters?.[0]?.name}: ${ranges?.join(',') ?? 'anywhere'} ${names?.join(',') ?? 'any name'}`;
  });
}

test('chains that match different things stay as they are', () => {
  const chains = [chain('a', ['a.com', 'b.com']), chain('b', ['c.com']), chain('c', [], ['10.0.0.0/8'])];
  assert.deepEqual(matchesOf(chains), ['a: anywhere a.com,b.com', 'b: anywhere c.com', 'c: 10.0.0.0/8 any name']);
  assert.deepEqual(mergeChains(chains).conflicts, []);
});

test('the first chain keeps a match, the later one keeps the rest, and the loss is reported', () => {
  const chains = [chain('a', ['a.com']), chain('b', ['a.com', 'b.com']), chain('c', ['b.com'])];
  assert.deepEqual(matchesOf(chains), ['a: anywhere a.com', 'b: anywhere b.com']);
  assert.deepEqual(mergeChains(chains).conflicts, [
    'b: connections that match it already belong to a',
    'c: connections that match it already belong to b',
  ]);
});

test('names are lost for the ranges in which another chain has them', () => {
  const chains = [chain('a', ['a.com'], ['10.0.0.0/8']), chain('b', ['a.com', 'b.com'], ['10.9.9.9/8', '11.0.0.0/8'])];
  assert.deepEqual(matchesOf(chains), ['a: 10.0.0.0/8 a.com', 'b: 10.0.0.0/8 b.com', 'b: 11.0.0.0/8 a.com,b.com']);
});

test('a chain that is repeated is not a conflict', () => {
  const { chains, conflicts } = mergeChains([chain('a', ['a.com', 'a.com'], ['10.0.0.0/8', '10.1.0.0/8'])]);
  assert.equal(chains.length, 1);
  assert.deepEqual(conflicts, []);
});

test('only a chain without any match matches everything', () => {
  assert.equal(mergeChains([chain('a', ['a.com']), chain('b', [], ['0.0.0.0/0'])]).takesAll, false);
  assert.equal(mergeChains([chain('a', ['a.com']), chain('b')]).takesAll, true);
});

test('a chain whose ranges are all unreadable is left out rather than matching everything', () => {
  assert.deepEqual(mergeChains([chain('a', [], ['nonsense'])]).chains, []);
});

test('however chains are merged, no two match the same', () => {
  const names = fc.subarray(['a.com', '*.b.com', 'c.com']);
  const ranges = fc.subarray(['10.0.0.0/8', '10.1.0.0/8', '10.0.0.0/16', '::/0']);
  const chains = fc.array(fc.record({ owner: fc.constantFrom('a', 'b', 'c'), names, ranges }));
  fc.assert(
    fc.property(chains, (list) => {
      const seen = new Set<string>();
      for (const { filterChainMatch: match } of mergeChains(list.map((c) => chain(c.owner, c.names, c.ranges)))
        .chains) {
        for (const range of match?.prefixRanges ?? [undefined]) {
          for (const name of match?.serverNames ?? [undefined]) {
            const key = `${range?.addressPrefix}/${range?.prefixLen?.value} ${name}`;
            assert.ok(!seen.has(key), key);
            seen.add(key);
          }
        }
      }
    }),
  );
});
