import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { clusterName, hostOfCluster, listenerName, meshServerName } from './names.ts';

test('the host can be read from a cluster name', () => {
  const text = fc.stringMatching(/^[a-z0-9.*-]*$/);
  fc.assert(
    fc.property(fc.constantFrom('outbound', 'inbound'), fc.nat(65535), text, text, (direction, port, subset, host) => {
      assert.equal(hostOfCluster(clusterName(direction, port, subset, host)), host);
    }),
  );
});

test('the host can be read from the server name of mutual TLS, as gateways between networks do', () => {
  const subset = fc.stringMatching(/^[a-z0-9_-]*$/);
  const host = fc.stringMatching(/^[a-z0-9_.-]*$/);
  fc.assert(
    fc.property(fc.nat(65535), subset, host, (port, ofSubset, ofHost) => {
      assert.equal(hostOfCluster(meshServerName(port, ofSubset, ofHost)), ofHost);
    }),
  );
});

test('listeners are named by address and port, or by the path of their socket', () => {
  assert.equal(listenerName('0.0.0.0', 80), '0.0.0.0_80');
  assert.equal(listenerName('/run/egress.sock', 0), '/run/egress.sock');
});
