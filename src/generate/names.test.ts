import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { clusterName, hostOfCluster, listenerName } from './names.ts';

test('a cluster name says its host again', () => {
  const text = fc.stringMatching(/^[a-z0-9.*-]*$/);
  fc.assert(
    fc.property(fc.constantFrom('outbound', 'inbound'), fc.nat(65535), text, text, (direction, port, subset, host) => {
      assert.equal(hostOfCluster(clusterName(direction, port, subset, host)), host);
    }),
  );
});

test('listeners are named by address and port, or by the path of their socket', () => {
  assert.equal(listenerName('0.0.0.0', 80), '0.0.0.0_80');
  assert.equal(listenerName('/run/egress.sock', 0), '/run/egress.sock');
});
