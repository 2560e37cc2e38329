import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LOG_WINDOW_MS, limitLog } from './limit.ts';

function limited() {
  const lines: string[] = [];
  const ends: (() => void)[] = [];
  const log = limitLog({
    write: (line) => void lines.push(line),
    later: (ms, run) => {
      assert.equal(ms, LOG_WINDOW_MS);
      ends.push(run);
    },
  });
  const taken = (): string[] => lines.splice(0);
  const endWindow = (): void => {
    assert.equal(ends.length, 1);
    ends.pop()?.();
  };
  return { log, taken, endWindow, ends };
}

test('each caller has a few lines in a window; the others are counted, with the latest', () => {
  const { log, taken, endWindow, ends } = limited();
  for (let index = 0; index < 1000; index++) log('a', `a ${index}`);
  log('b', 'b 0');
  assert.deepEqual(taken(), ['a 0', 'a 1', 'a 2', 'a 3', 'a 4', 'b 0']);
  endWindow();
  assert.deepEqual(taken(), ['… and 995 more in the last 10 s, the latest: a 999']);
  assert.deepEqual(ends, []);
  log('a', 'a again');
  assert.deepEqual(taken(), ['a again']);
  endWindow();
  assert.deepEqual(taken(), []);
});

test('all callers together have a limit as well', () => {
  const { log, taken, endWindow } = limited();
  for (let index = 0; index < 10_000; index++) log(`caller ${index}`, `${index}`);
  assert.equal(taken().length, 50);
  endWindow();
  assert.deepEqual(taken(), ['… and 9950 more in the last 10 s, the latest: 9999']);
});

test('a single message beyond the limit is written at the end of the window', () => {
  const { log, taken, endWindow } = limited();
  for (let index = 0; index < 6; index++) log('a', `${index}`);
  taken();
  endWindow();
  assert.deepEqual(taken(), ['5']);
});
