import assert from 'node:assert/strict';
import { test } from 'node:test';
import { summary } from './summary.ts';

test('the summary has the failed tests, the counts and time of each stage, the whole time, and the sums last', () => {
  const lint = { passed: 1, failed: 0, skipped: 0, failures: [] };
  const unit = { passed: 4800, failed: 1, skipped: 2, failures: ['src/a.test.ts: adds'] };
  const stages = [
    { name: 'lint', outcome: lint, seconds: 4.9 },
    { name: 'kubernetes', outcome: unit, seconds: 205.4 },
  ];
  const text = summary(stages, 206.2);
  assert.equal(
    text,
    `failed:
  kubernetes: src/a.test.ts: adds

stages:
  lint        1 passed, 0 failed in 5 s
  kubernetes  4800 passed, 1 failed, 2 skipped in 3 min 25 s
time: 3 min 26 s

4801 passed, 1 failed, 2 skipped`,
  );
});

test('a summary of nothing counts nothing', () => {
  assert.match(summary([], 0), /^time: 0 s\n\n0 passed, 0 failed$/m);
});
