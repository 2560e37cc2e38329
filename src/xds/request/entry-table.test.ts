import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { encodeFields } from '../../protobuf/wire/index.ts';
import { Entries, EntryTable } from './entry-table.ts';

const encode = (texts: readonly string[]): Buffer => encodeFields(texts.map((text) => [3, text]));
const entriesOf = (texts: readonly string[]): Entries => new Entries(encode(texts), texts.length);
const tableOf = (texts: readonly string[]): EntryTable => new EntryTable(entriesOf(texts));
const texts = fc.uniqueArray(fc.string({ maxLength: 300 }), { minLength: 1, maxLength: 30 });

describe('an entry table', () => {
  it('recognises its entries in any order', () => {
    fc.assert(
      fc.property(texts, fc.infiniteStream(fc.nat()), (list, numbers) => {
        const table = tableOf(list);
        assert.ok(table.sameAs(entriesOf(list)));
        const shuffled = list.map((text) => ({ text, key: numbers.next().value ?? 0 })).sort((a, b) => a.key - b.key);
        assert.ok(table.sameAs(entriesOf(shuffled.map(({ text }) => text))));
      }),
    );
  });

  it('does not recognise a list with a changed byte or a repeated entry', () => {
    fc.assert(
      fc.property(texts, fc.nat(), fc.nat(), (list, at, other) => {
        const table = tableOf(list);
        const index = at % list.length;
        const text = list[index] ?? '';
        const changed = `${text.slice(0, -1)}${text.endsWith('x') ? 'y' : 'x'}`;
        if (!list.includes(changed)) assert.ok(!table.sameAs(entriesOf(list.with(index, changed))));
        const twice = list[other % list.length] ?? '';
        if (twice !== text) assert.ok(!table.sameAs(entriesOf(list.with(index, twice))));
      }),
    );
  });

  it('distinguishes entries with the same hash', () => {
    const names = Array.from({ length: 300_000 }, (_, index) =>
      `${Math.imul(index, 0x9e3779b1) >>> 0}`.padStart(10, '0'),
    );
    const all = entriesOf(names);
    const byHash = new Map<number, number>();
    let pairs = 0;
    for (const [index, hash] of all.hashes.entries()) {
      const [one, other] = [names[byHash.get(hash) ?? index] ?? '', names[index] ?? ''];
      byHash.set(hash, index);
      if (one === other || one.length !== other.length) continue;
      pairs++;
      assert.ok(!tableOf([one, 'a']).sameAs(entriesOf([other, 'a'])));
      assert.ok(tableOf([one, other]).sameAs(entriesOf([other, one])));
      assert.ok(!tableOf([one, other]).sameAs(entriesOf([one, one])));
    }
    assert.ok(pairs > 0);
  });
});
