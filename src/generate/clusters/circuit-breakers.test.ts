import assert from 'node:assert/strict';
import { test } from 'node:test';
import { circuitBreakers } from './circuit-breakers.ts';

const UNLIMITED = 0xffffffff;

test('absent, zero and negative limits mean no limit', () => {
  const limits = (maxConnections: number | undefined) =>
    circuitBreakers({ tcp: { maxConnections } }).circuitBreakers?.thresholds?.map((each) => each.maxConnections);
  assert.deepEqual(limits(7), [{ value: 7 }]);
  for (const none of [undefined, 0, -1]) assert.deepEqual(limits(none), [{ value: UNLIMITED }]);
  const [first] = circuitBreakers(undefined).circuitBreakers?.thresholds ?? [];
  assert.deepEqual(
    [first?.maxPendingRequests, first?.maxRequests, first?.maxRetries],
    Array(3).fill({ value: UNLIMITED }),
  );
});
