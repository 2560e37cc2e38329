/** Items that are visited in rounds. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../core/testing/fake-clock.ts';
import { type NextVisit, Rounds } from './rounds.ts';

interface Item {
  readonly namespace: string;
  readonly takesMs: number;
  next: NextVisit;
  visits: number;
}

function start() {
  const clock = fakeClock();
  const state = { version: 1, inSlice: 0, slices: [] as number[] };
  const rounds = new Rounds<Item>({
    clock,
    intervalMs: 250,
    version: () => state.version,
    visit(item) {
      item.visits++;
      state.inSlice++;
      clock.hang(item.takesMs);
      return item.next;
    },
    onSlice() {
      state.slices.push(state.inSlice);
      state.inSlice = 0;
    },
  });
  const add = (namespace: string, takesMs: number, next: NextVisit = 'next-round'): Item => {
    const item = { namespace, takesMs, next, visits: 0 };
    rounds.add(item);
    return item;
  };
  return { clock, rounds, state, add };
}

test('an item is visited once in each round until it needs no further visit', () => {
  const { clock, add } = start();
  const item = add('shop', 0);
  clock.pass(1000);
  assert.equal(item.visits, 4);
  item.next = 'none';
  clock.pass(60_000);
  assert.equal(item.visits, 5);
  assert.deepEqual(clock.pending(), []);
});

test('an item that waits for a new version is visited once in each version', () => {
  const { clock, rounds, state, add } = start();
  const item = add('shop', 0, 'new-version');
  clock.pass(10_000);
  assert.equal(item.visits, 1);
  state.version = 2;
  clock.pass(10_000);
  assert.equal(item.visits, 2);
  rounds.remove(item);
  state.version = 3;
  clock.pass(10_000);
  assert.equal(item.visits, 2);
  assert.deepEqual(clock.pending(), []);
});

test('a slice ends after 5 ms, and the next begins after a pause twenty times as long', () => {
  const { clock, state, add } = start();
  const items = Array.from({ length: 6 }, () => add('shop', 3, 'none'));
  clock.pass(250 + 2 * 3);
  assert.deepEqual(state.slices, [2]);
  assert.deepEqual(clock.pending(), [120]);
  clock.pass(300);
  assert.deepEqual(state.slices, [2, 2, 2]);
  assert.ok(items.every(({ visits }) => visits === 1));
  // One that took very long does not delay all others for as long.
  add('shop', 10_000, 'none');
  add('shop', 0, 'none');
  clock.pass(250 + 10_000);
  assert.deepEqual(clock.pending(), [1000]);
});

test('a namespace with expensive items does not keep another from its rounds', () => {
  const { clock, add } = start();
  const expensive = Array.from({ length: 1000 }, () => add('shop', 4));
  const cheap = add('edge', 0.01);
  clock.pass(10_000);
  assert.ok(cheap.visits >= 20, `${cheap.visits} visits`);
  assert.ok(expensive.some(({ visits }) => visits === 1));
});

test('nothing is visited after the end', () => {
  const { clock, rounds, add } = start();
  const item = add('shop', 0);
  rounds.close();
  rounds.add(item);
  clock.pass(1000);
  assert.equal(item.visits, 0);
});
