import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultDiscoverySettings } from '../../settings/index.ts';
import { isExposed, plainAddresses, shownListeners } from './addresses.ts';

const BOTH = () => ['127.0.0.1', '::1'];

test('without --grpcAddr plain-text xDS listens on loopback only', () => {
  const byDefault = plainAddresses(defaultDiscoverySettings().grpcAddr, BOTH);
  assert.deepEqual(byDefault, [
    { host: '127.0.0.1', port: 15010 },
    { host: '::1', port: 15010 },
  ]);
  assert.ok(!byDefault.some(isExposed));
  assert.deepEqual(plainAddresses(':15010', BOTH), [{ host: undefined, port: 15010 }]);
  assert.deepEqual(plainAddresses('10.0.0.1:7', BOTH), [{ host: '10.0.0.1', port: 7 }]);
  for (const addr of [':15010', '0.0.0.0:15010', '[::]:15010', '10.0.0.1:1', 'mesh:1']) {
    assert.ok(plainAddresses(addr, BOTH).every(isExposed), addr);
  }
  for (const addr of ['localhost:1', '127.0.0.1:1', '[::1]:1']) {
    assert.ok(!plainAddresses(addr, BOTH).some(isExposed), addr);
  }
  assert.equal(plainAddresses('localhost:0', BOTH).length, 1);
});

test('the log line about listeners names every address', () => {
  const line = shownListeners([
    ['xDS in plain text', plainAddresses('localhost:15010', BOTH)],
    ['xDS over TLS', []],
    ['HTTP', [{ host: undefined, port: 8080 }]],
  ]);
  assert.equal(line, 'xDS in plain text on 127.0.0.1:15010, [::1]:15010; HTTP on *:8080');
});
