import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { readingPace } from './reading-pace.ts';

function paceOf(maxBytes: number) {
  const clock = fakeClock();
  const lines: string[] = [];
  const note = (line: string): void => void lines.push(line);
  const log = { debug: note, info: note, warn: note, error: note };
  return { clock, lines, pace: readingPace(maxBytes, { clock, log }) };
}

test('as many objects as fit into the memory are read without a pause, then 1000 a second, with one line', () => {
  const { clock, lines, pace } = paceOf(100_000 * 2048);
  assert.equal(pace(100_000, 0), 0);
  assert.deepEqual(lines, []);
  assert.equal(pace(500, 1000), 500);
  clock.pass(500);
  assert.equal(pace(10, 1000), 10);
  assert.deepEqual(lines, ['the API server sends more than 1000 objects a second; reading is slowed down']);
  clock.pass(200_000);
  assert.equal(pace(100_000, 0), 0);
  assert.equal(pace(1, 0), 1);
  assert.equal(lines.length, 2);
});

test('a small limit of memory allows a whole list nevertheless, and large objects count as several', () => {
  const { pace } = paceOf(1024);
  assert.equal(pace(19_000, 0), 0);
  assert.equal(pace(1, 1001 * 4096), 1);
});
