import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { settleDomains } from './ownership.ts';

interface Candidate {
  readonly name: string;
  readonly domains: readonly string[];
}

const settle = (...candidates: readonly Candidate[]) => settleDomains(candidates, ({ domains }) => domains);

describe('the owner of a domain', () => {
  test('is the first candidate; a lost domain is reported with its owner', () => {
    const first = { name: 'first', domains: ['a', 'b'] };
    const second = { name: 'second', domains: ['c', 'b', 'a'] };
    const { owned, lost } = settle(first, second);
    assert.deepEqual(owned, [
      [first, ['a', 'b']],
      [second, ['c']],
    ]);
    assert.deepEqual(lost, [{ domain: 'b', candidate: second, owner: first }]);
  });

  test('a candidate without remaining domains is left out', () => {
    const first = { name: 'first', domains: ['a'] };
    const { owned } = settle(first, { name: 'second', domains: ['a'] }, { name: 'third', domains: [] });
    assert.deepEqual(owned, [[first, ['a']]]);
  });

  test('a candidate that keeps all of its domains keeps the list object', () => {
    const candidate = { name: 'x', domains: ['a', 'b'] };
    assert.equal(settle(candidate).owned[0]?.[1], candidate.domains);
  });

  test('all other domains are owned when a candidate owns `*`', () => {
    assert.equal(settle({ name: 'x', domains: ['a', '*.b'] }).takesAll, false);
    assert.equal(settle({ name: 'x', domains: ['*'] }).takesAll, true);
  });

  test('every domain of a candidate has one owner', () => {
    const candidates = fc.array(
      fc.record({ name: fc.string(), domains: fc.uniqueArray(fc.constantFrom(...'abcdef')) }),
    );
    fc.assert(
      fc.property(candidates, (list) => {
        const owned = settle(...list).owned.flatMap(([, domains]) => domains);
        assert.deepEqual(owned.toSorted(), [...new Set(list.flatMap(({ domains }) => domains))].sort());
      }),
    );
  });
});
