import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import * as fc from '../../core/testing/properties.ts';
import { MergedNames } from './merged-names.ts';
import { createNameTable, type NameEntries, type NameTable } from './name-table.ts';

const entries = (names: Readonly<Record<string, string>>): NameEntries =>
  Object.entries(names).map(([name, ip]) => [name, { ips: [ip] }]);

function addressOf(table: NameTable, name: string): string | undefined {
  const id = table.find(name);
  return id === undefined ? undefined : table.addresses(id, 4).join('.');
}

const NAMES = ['a.x', 'b.x', 'c.x', 'd.x', '*.x'] as const;
const PIECES = ['1', '2', '3'] as const;
const address = fc.integer({ min: 1, max: 9 }).map((number) => `10.0.0.${number}`);
/** Names by piece: a name may be in several. */
const change = fc.record({
  set: fc.dictionary(fc.constantFrom(...PIECES), fc.dictionary(fc.constantFrom(...NAMES), address)),
  removed: fc.array(fc.constantFrom(...PIECES)),
  whole: fc.boolean(),
});

test('merged names are those of one table, also when several pieces have a name', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(change), async (changes) => {
      const merged = new MergedNames();
      const pieces = new Map<string, Readonly<Record<string, string>>>();
      for (const { set, removed, whole } of changes) {
        if (whole) pieces.clear();
        for (const name of [...removed, ...Object.keys(set)]) pieces.delete(name);
        for (const [name, names] of Object.entries(set)) pieces.set(name, names);
        const compiled = new Map(Object.entries(set).map(([name, names]) => [name, entries(names)]));
        await merged.update({ set: compiled, removed, whole });
        const all = Object.assign({}, ...pieces.values()) as Record<string, string>;
        const expected = createNameTable(entries(all));
        assert.equal(merged.size, expected.size);
        assert.equal(merged.wildcards > 0, expected.wildcards > 0);
        for (const name of NAMES) {
          const addresses = [...pieces.values()].flatMap((names) => names[name] ?? []);
          const found = addressOf(merged, name);
          assert.ok(found === undefined ? addresses.length === 0 : addresses.includes(found), name);
        }
      }
    }),
  );
});

test('names that stay are found at any time while thousands of others change, and a change is seen as a whole', async () => {
  const merged = new MergedNames();
  const table = (round: number, kept: string) => {
    const many = Array.from({ length: 3000 }, (_, index) => [`n${index}.${round}.x`, `10.0.0.${round}`]);
    return new Map([
      ['many', entries({ ...Object.fromEntries(many), 'first.x': `10.0.1.${round}` })],
      ['last', entries({ 'last.x': `10.0.1.${round}`, [kept]: '10.0.2.1' })],
    ]);
  };
  await merged.update({ set: table(1, 'kept.x'), removed: [], whole: false });
  for (const [round, whole] of [false, true].entries()) {
    const next = round + 2;
    let pauses = 0;
    const updated = merged.update({ set: table(next, 'kept.x'), removed: [], whole }).then(() => true);
    for (let ended = false; !ended; pauses++) {
      assert.equal(addressOf(merged, 'kept.x'), '10.0.2.1');
      assert.equal(addressOf(merged, 'first.x'), addressOf(merged, 'last.x'));
      ended = await Promise.race([updated, setImmediate(false)]);
    }
    assert.ok(pauses > 2, 'queries are answered meanwhile');
    assert.deepEqual(
      [addressOf(merged, 'first.x'), addressOf(merged, `n0.${next - 1}.x`)],
      [`10.0.1.${next}`, undefined],
    );
    assert.equal(merged.size, 3003);
  }
});
