import assert from 'node:assert/strict';
import { test } from 'node:test';
import { outlierDetection } from './outlier-detection.ts';

const enforced = { value: 100 };
const off = { value: 0 };

test("Envoy's defaults are left out, all other values are written", () => {
  const usual = { consecutiveGatewayErrors: 5, consecutive5xxErrors: 5, interval: 10_000, baseEjectionTime: 30_000 };
  assert.deepEqual(outlierDetection(usual), {
    enforcingSuccessRate: off,
    alwaysEjectOneHost: { value: true },
    enforcingConsecutive_5xx: enforced,
    enforcingConsecutiveGatewayFailure: enforced,
  });
  const own = { consecutiveGatewayErrors: 4, consecutive5xxErrors: 6, interval: 5000, baseEjectionTime: 60_000 };
  assert.deepEqual(outlierDetection(own), {
    enforcingSuccessRate: off,
    alwaysEjectOneHost: { value: true },
    enforcingConsecutive_5xx: enforced,
    consecutive_5xx: { value: 6 },
    enforcingConsecutiveGatewayFailure: enforced,
    consecutiveGatewayFailure: { value: 4 },
    interval: { seconds: 5, nanos: 0 },
    baseEjectionTime: { seconds: 60, nanos: 0 },
  });
});

test('counts of 0 switch ejection off, and the deprecated count is for gateway errors only', () => {
  assert.deepEqual(outlierDetection({ consecutiveGatewayErrors: 0, consecutive5xxErrors: 0 }), {
    enforcingSuccessRate: off,
    alwaysEjectOneHost: { value: true },
    enforcingConsecutive_5xx: off,
    enforcingConsecutiveGatewayFailure: off,
  });
  assert.deepEqual(outlierDetection({ consecutiveErrors: 5 }), {
    enforcingSuccessRate: off,
    alwaysEjectOneHost: { value: true },
    enforcingConsecutive_5xx: off,
    enforcingConsecutiveGatewayFailure: enforced,
  });
});
