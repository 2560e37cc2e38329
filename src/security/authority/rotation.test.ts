import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nextCheckMs, type RotationState, rotationStep } from './rotation.ts';

const HOUR = 3_600_000;
const SETTINGS = { intervalMs: HOUR, gracePercentile: 20 };
/** The grace period begins at 80 h. */
const ROOT = { notBefore: 0, notAfter: 100 * HOUR };

function state(changes: Partial<RotationState> = {}): RotationState {
  return { current: ROOT, nextServedSince: undefined, ...changes };
}

const STEPS: readonly (readonly [string, RotationState, number, string])[] = [
  ['a young root is kept', state(), 79 * HOUR, 'keep'],
  ['in the grace period the next one is announced', state(), 80 * HOUR, 'announce'],
  ['an announced root does not sign before one interval', state({ nextServedSince: 80 * HOUR }), 81 * HOUR - 1, 'keep'],
  ['an announced root signs after one interval', state({ nextServedSince: 80 * HOUR }), 81 * HOUR, 'switch'],
  [
    'after a restart an announced root has an interval to spread',
    state({ nextServedSince: 90 * HOUR }),
    90.5 * HOUR,
    'keep',
  ],
  [
    'an announced root signs at once when the old one ends',
    state({ nextServedSince: 99.9 * HOUR }),
    100 * HOUR,
    'switch',
  ],
  [
    'in its last minute a root signs nothing that is of use',
    state({ nextServedSince: 99.5 * HOUR }),
    100 * HOUR - 60_000,
    'switch',
  ],
  ['a root that ends unannounced is replaced', state(), 100 * HOUR - 60_000, 'replace'],
  ['a root that has ended is replaced', state(), 200 * HOUR, 'replace'],
];

for (const [name, at, now, step] of STEPS) test(name, () => assert.equal(rotationStep(at, SETTINGS, now), step));

test('a zero or negative interval switches rotation off', () => {
  for (const intervalMs of [0, -1])
    assert.equal(rotationStep(state(), { ...SETTINGS, intervalMs }, 99.99 * HOUR), 'keep');
});

test('without a grace period the root is replaced when it expires', () => {
  const settings = { ...SETTINGS, gracePercentile: 0 };
  assert.equal(rotationStep(state(), settings, 99 * HOUR), 'keep');
  assert.equal(rotationStep(state(), settings, 100 * HOUR - 60_000), 'replace');
});

test('a root is replaced after a hundredth of its life at the earliest', () => {
  const settings = { ...SETTINGS, gracePercentile: 100 };
  assert.equal(rotationStep(state(), settings, 0.99 * HOUR), 'keep');
  assert.equal(rotationStep(state(), settings, HOUR), 'announce');
});

test('the next check is after an interval, or when a root has been distributed, or when the root expires', () => {
  assert.equal(nextCheckMs(state(), SETTINGS, 10 * HOUR), HOUR);
  assert.equal(nextCheckMs(state({ nextServedSince: 80.25 * HOUR }), SETTINGS, 80.75 * HOUR), HOUR / 2);
  assert.equal(nextCheckMs(state(), SETTINGS, 99.5 * HOUR), HOUR / 2 - 60_000);
  assert.equal(nextCheckMs(state(), SETTINGS, 101 * HOUR), 100);
});
