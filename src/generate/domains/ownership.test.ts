import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { settleDomains } from './ownership.ts';

interface Claim {
  readonly name: string;
  readonly domains: readonly string[];
}

const settle = (...claims: readonly Claim[]) => settleDomains(claims, ({ domains }) => domains);

describe('who owns a domain', () => {
  test('the first that claims it; what one loses is told with its owner', () => {
    const first = { name: 'first', domains: ['a', 'b'] };
    const second = { name: 'second', domains: ['c', 'b', 'a'] };
    const { owned, lost } = settle(first, second);
    assert.deepEqual(owned, [
      [first, ['a', 'b']],
      [second, ['c']],
    ]);
    assert.deepEqual(lost, [{ domain: 'b', claim: second, owner: first }]);
  });

  test('a claim for which nothing is left is none', () => {
    const first = { name: 'first', domains: ['a'] };
    const { owned } = settle(first, { name: 'second', domains: ['a'] }, { name: 'third', domains: [] });
    assert.deepEqual(owned, [[first, ['a']]]);
  });

  test('a claim that keeps all of its domains keeps the list', () => {
    const claim = { name: 'x', domains: ['a', 'b'] };
    assert.equal(settle(claim).owned[0]?.[1], claim.domains);
  });

  test('all other domains are owned when somebody owns `*`', () => {
    assert.equal(settle({ name: 'x', domains: ['a', '*.b'] }).takesAll, false);
    assert.equal(settle({ name: 'x', domains: ['*'] }).takesAll, true);
  });

  test('every domain that is claimed has one owner', () => {
    const claims = fc.array(fc.record({ name: fc.string(), domains: fc.uniqueArray(fc.constantFrom(...'abcdef')) }));
    fc.assert(
      fc.property(claims, (list) => {
        const owned = settle(...list).owned.flatMap(([, domains]) => domains);
        assert.deepEqual(owned.toSorted(), [...new Set(list.flatMap(({ domains }) => domains))].sort());
      }),
    );
  });
});
