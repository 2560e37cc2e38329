import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { EntryTable } from './entry-table.ts';
import { encodeStrings } from './wire.ts';

const encode = (texts: readonly string[]): Buffer => encodeStrings(texts.map((text) => ({ number: 3, text })));
const texts = fc.uniqueArray(fc.string({ maxLength: 300 }), { minLength: 1, maxLength: 30 });

describe('a table of entries', () => {
  it('knows its entries in any order', () => {
    fc.assert(
      fc.property(texts, fc.infiniteStream(fc.nat()), (list, numbers) => {
        const table = new EntryTable(encode(list), list.length);
        assert.ok(table.sameAs(encode(list)));
        const shuffled = list.map((text) => ({ text, key: numbers.next().value ?? 0 })).sort((a, b) => a.key - b.key);
        assert.ok(table.sameAs(encode(shuffled.map(({ text }) => text))));
      }),
    );
  });

  it('does not take one changed byte, or an entry twice, for the same', () => {
    fc.assert(
      fc.property(texts, fc.nat(), fc.nat(), (list, at, other) => {
        const table = new EntryTable(encode(list), list.length);
        const index = at % list.length;
        const text = list[index] ?? '';
        const changed = `${text.slice(0, -1)}${text.endsWith('x') ? 'y' : 'x'}`;
        if (!list.includes(changed)) assert.ok(!table.sameAs(encode(list.with(index, changed))));
        const twice = list[other % list.length] ?? '';
        if (twice !== text) assert.ok(!table.sameAs(encode(list.with(index, twice))));
      }),
    );
  });
});
