import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Memos } from '../../core/memo.ts';
import * as fc from '../../core/testing/properties.ts';
import { NameSets, NO_NAMES } from './name-set.ts';

describe('name sets', () => {
  it('are one object for equal names, however they were made', () => {
    const sets = new NameSets(new Memos());
    const set = sets.of(['a', 'b', 'c', 'b']);
    assert.equal(sets.of(['c', 'a', 'b']), set);
    assert.equal(sets.change(sets.of(['a', 'x']), sets.of(['b', 'c']), sets.of(['x'])), set);
    assert.equal(sets.change(set, sets.of(['a']), sets.of(['none'])), set);
    assert.equal(sets.change(set, NO_NAMES, set), NO_NAMES);
    assert.equal(sets.change(NO_NAMES, set, set), set);
    assert.equal(sets.outside(sets.of(['a', 'b', 'c', 'x']), sets.of(['x', 'y'])), set);
    assert.equal(sets.outside(set, sets.of(['a', 'b', 'c', 'd'])), NO_NAMES);
    assert.notEqual(sets.of(['a', 'b', 'd']), set);
  });

  it('sort their names, whichever order was asked for first', () => {
    for (const enabled of [true, false]) {
      const sets = new NameSets(new Memos({ enabled }));
      assert.deepEqual(sets.of(['c', 'a', 'b']).sorted(), ['a', 'b', 'c']);
      assert.deepEqual(sets.change(sets.of(['d', 'b']), sets.of(['c', 'a']), sets.of(['d'])).sorted(), ['a', 'b', 'c']);
    }
  });

  it('are equal but not one object where memos are switched off', () => {
    const sets = new NameSets(new Memos({ enabled: false }));
    const set = sets.of(['a', 'b']);
    assert.deepEqual(sets.of(['b', 'a']).hash, sets.of(['b', 'a']).hash);
    assert.notEqual(sets.of(['a', 'b']), set);
    assert.deepEqual(sets.change(set, sets.of(['c']), sets.of(['a'])).sorted(), ['b', 'c']);
    assert.deepEqual([...sets.outside(set, sets.of(['b'])).names], ['a']);
    assert.equal(sets.of([]), NO_NAMES);
  });

  it('have the same results where they are lists and where they are hash tables', () => {
    const sets = fc.array(fc.uniqueArray(fc.nat(30).map(String), { maxLength: 12 }), { minLength: 3, maxLength: 3 });
    fc.assert(
      fc.property(sets, fc.nat(14), ([first = [], second = [], third = []], few) => {
        const known = new NameSets(new Memos(), few);
        const [set, added, removed] = [known.of(first), known.of(second), known.of(third)];
        const changed = new Set([...new Set(first).difference(new Set(third)), ...second]);
        const outside = new Set(first).difference(new Set(second));
        for (let time = 0; time < 2; time++) {
          assert.deepEqual(known.change(set, added, removed).sorted(), [...changed].sort());
          assert.deepEqual(new Set(known.outside(set, added).names), outside);
          assert.equal(known.outside(set, added), known.of(outside));
        }
        for (const name of [...first, ...second, 'none']) assert.equal(set.has(name), first.includes(name));
        assert.equal(set.size, first.length);
      }),
    );
  });
});
