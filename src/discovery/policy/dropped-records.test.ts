import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DroppedRecords } from './dropped-records.ts';

test('dropped records are counted, and logged once in a window', () => {
  const [lines, windows]: [string[], (() => void)[]] = [[], []];
  const dropped = new DroppedRecords({ write: (line) => lines.push(line), later: (_, run) => windows.push(run) });
  dropped.entries(0);
  assert.equal(windows.length, 0);
  for (const caller of ['a', 'b']) dropped.message(caller);
  for (const count of [0, 4, 5]) dropped.entries(count);
  assert.deepEqual([lines.length, windows.length], [0, 1]);
  windows.shift()?.();
  dropped.entries(7);
  windows.shift()?.();
  assert.deepEqual(lines, [
    'records were dropped in the last 10 s: 2 messages that came faster than handlers take them, the latest of b; ' +
      '9 entries beyond the limit of a message',
    'records were dropped in the last 10 s: 7 entries beyond the limit of a message',
  ]);
});
