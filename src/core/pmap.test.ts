import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PMap } from './pmap.ts';
import * as fc from './testing/properties.ts';

const key = fc.integer({ min: 0, max: 300 }).map((number) => `k${number}`);
const changes = fc.array(fc.tuple(key, fc.option(fc.nat(3), { nil: undefined })), { maxLength: 6 });

test('a map has the entries of its changes, sorted, whichever earlier maps were sorted', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(key, fc.nat(3)), { maxLength: 400 }),
      fc.array(fc.tuple(changes, fc.boolean()), { maxLength: 12 }),
      (first, steps) => {
        let map = PMap.from<number>(first);
        const model = new Map(first);
        map.sorted();
        for (const [step, asked] of steps) {
          const before = { map, entries: [...model].sort() };
          map = map.with(step);
          for (const [name, value] of step) {
            if (value === undefined) model.delete(name);
            else model.set(name, value);
          }
          if (asked) assert.deepEqual(map.sorted(), [...model].sort(byKey));
          assert.equal(map.size, model.size);
          assert.deepEqual(new Map(map.entries()), model);
          assert.deepEqual(before.map.sorted(), before.entries.sort(byKey));
        }
        assert.deepEqual(map.sorted(), [...model].sort(byKey));
      },
    ),
    { numRuns: 300 },
  );
});

test('unchanged entries are the same objects in the sorted list of the next map', () => {
  const map = PMap.from(Array.from({ length: 200 }, (_, i) => [`k${i}`, i] as const));
  const before = new Set(map.sorted());
  const after = map.with([
    ['k7', 70],
    ['k8', undefined],
    ['new', 1],
  ]);
  const fresh = after.sorted().filter((entry) => !before.has(entry));
  assert.deepEqual(fresh, [
    ['k7', 70],
    ['new', 1],
  ]);
});

function byKey([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1;
}

test('a map with other values has the same keys in the same order, and what is equal is shared', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(key, fc.nat(3)), { maxLength: 400 }), changes, fc.nat(4), (entries, step, odd) => {
      const map = PMap.from<number>(entries);
      const make = (value: number) => (value === odd ? value + 10 : value);
      const mapped = map.mapped(make);
      const expected = new Map([...new Map(entries)].map(([name, value]) => [name, make(value)]));
      assert.deepEqual(new Map(mapped.entries()), expected);
      const changed = [...new Map(entries)].flatMap(([name, value]) => (value === odd ? [name] : []));
      assert.deepEqual(mapped.changedKeys(map).sort(), changed.sort());
      if (changed.length === 0) assert.equal(mapped, map);
      assert.deepEqual(mapped.with(step).sorted(), PMap.from<number>(expected).with(step).sorted());
      assert.deepEqual(mapped.sorted(), [...expected].sort(byKey));
      assert.deepEqual(map.sorted(), [...new Map(entries)].sort(byKey));
    }),
    { numRuns: 200 },
  );
});

test('a filtered map has the entries whose values fit, and is the map itself where all do', () => {
  const several = fc.array(fc.tuple(key, fc.nat(3)), { maxLength: 200 });
  fc.assert(
    fc.property(several, changes, fc.nat(4), fc.boolean(), (entries, step, odd, isSorted) => {
      const map = PMap.from<number>(entries);
      if (isSorted) map.sorted();
      const filtered = map.filtered((value) => value !== odd);
      const expected = new Map([...new Map(entries)].filter(([, value]) => value !== odd));
      assert.deepEqual(new Map(filtered.entries()), expected);
      assert.equal(filtered.size, expected.size);
      if (expected.size === map.size) assert.equal(filtered, map);
      assert.deepEqual(filtered.with(step).sorted(), PMap.from<number>(expected).with(step).sorted());
      assert.deepEqual(filtered.sorted(), [...expected].sort(byKey));
      assert.deepEqual(map.sorted(), [...new Map(entries)].sort(byKey));
    }),
    { numRuns: 200 },
  );
});

test('the changed keys of two maps are those with other values, whatever their sizes', () => {
  const some = fc.array(fc.tuple(key, fc.nat(3)), { maxLength: 80 });
  fc.assert(
    fc.property(some, changes, some, (entries, step, others) => {
      const map = PMap.from<number>(entries);
      for (const other of [map.with(step), PMap.from<number>(others), PMap.empty<number>()]) {
        const [mine, theirs] = [new Map(map.entries()), new Map(other.entries())];
        const expected = [...new Set([...mine.keys(), ...theirs.keys()])].filter((k) => mine.get(k) !== theirs.get(k));
        assert.deepEqual(map.changedKeys(other).sort(), expected.sort());
        assert.deepEqual(other.changedKeys(map).sort(), expected.sort());
      }
    }),
    { numRuns: 300 },
  );
});

test('a map of many entries has the last value of each key, in order', () => {
  const keys = Array.from({ length: 500 }, (_, at) => `key ${String(at).padStart(4, '0')}`);
  const ascending = keys.map((key, at) => [key, at] as const);
  const twice = [...ascending, ...ascending.map(([key, at]) => [key, at + 1000] as const)];
  for (const entries of [ascending, ascending.toReversed(), twice, ascending.slice(0, 200).concat(ascending)]) {
    const map = PMap.from(entries);
    const expected = new Map(entries);
    assert.equal(map.size, expected.size);
    assert.deepEqual(
      map.sorted(),
      [...expected].sort(([a], [b]) => (a < b ? -1 : 1)),
    );
    assert.deepEqual(new Map(map.entries()), expected);
    const edited = map.with([
      ['key 0007', undefined],
      ['key 0007a', 7],
    ]);
    assert.deepEqual(
      edited.sorted().map(([key]) => key),
      [...expected.keys(), 'key 0007a'].filter((key) => key !== 'key 0007').sort(),
    );
  }
  const few = PMap.from(Array.from({ length: 300 }, (_, at) => [`key ${at % 10}`, at] as const));
  assert.deepEqual([few.size, few.get('key 3')], [10, 293]);
});
