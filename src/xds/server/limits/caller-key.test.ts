import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callerKey } from './caller-key.ts';

test('a caller is keyed by its identity, or else by its network', () => {
  const identity = { trustDomain: 'cluster.local', namespace: 'shop', serviceAccount: 'web' };
  const proved = { identity, by: 'certificate' } as never;
  assert.equal(callerKey(proved, '192.0.2.1:5000'), 'spiffe://cluster.local/ns/shop/sa/web');
  assert.equal(callerKey(proved, '192.0.2.9:1'), 'spiffe://cluster.local/ns/shop/sa/web');
  assert.equal(callerKey(undefined, '192.0.2.1:5000'), '192.0.2.1');
  assert.equal(callerKey(undefined, '::ffff:192.0.2.1:5001'), '192.0.2.1');
  assert.equal(callerKey(undefined, '2001:db8:1:2::7:5000'), callerKey(undefined, '2001:db8:1:2:3::9:5001'));
});
