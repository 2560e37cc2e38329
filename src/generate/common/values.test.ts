import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toDuration } from './values.ts';

test('durations keep fractions of a millisecond, and none is longer than Envoy accepts', () => {
  assert.deepEqual(toDuration(1500), { seconds: 1, nanos: 500_000_000 });
  assert.deepEqual(toDuration(0.0015), { seconds: 0, nanos: 1500 });
  assert.deepEqual(toDuration(1999.999_999_9), { seconds: 2, nanos: 0 });
  const longest = toDuration(2_562_047 * 3_600_000);
  assert.deepEqual(longest, { seconds: 9_223_369_200, nanos: 0 });
  assert.deepEqual(toDuration(Number.POSITIVE_INFINITY), longest);
});
