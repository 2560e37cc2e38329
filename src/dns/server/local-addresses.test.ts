import assert from 'node:assert/strict';
import type { NetworkInterfaceInfo } from 'node:os';
import { test } from 'node:test';
import { createLocalAddresses, createOwnAddresses } from './local-addresses.ts';

test('loopback and the addresses of interfaces are local, also those added later', () => {
  let [time, readings] = [0, 0];
  let addresses = ['10.0.0.5', 'fe80::5'];
  const isLocal = createLocalAddresses(
    () => time,
    () => {
      readings++;
      return { eth0: addresses.map((address) => ({ address }) as NetworkInterfaceInfo) };
    },
  );
  for (const address of [
    '127.0.0.1',
    '127.9.9.9',
    '::1',
    '::ffff:127.0.0.1',
    '10.0.0.5',
    '::ffff:10.0.0.5',
    'fe80::5%eth0',
  ])
    assert.ok(isLocal(address), address);
  for (let count = 0; count < 100; count++) assert.ok(!isLocal('10.0.0.6'));
  assert.equal(readings, 1, 'strangers do not make it read the list again at once');
  addresses = ['10.0.0.6'];
  time = 1000;
  assert.ok(isLocal('10.0.0.6'));
});

test('an address on which the server listens, or that a wildcard includes, is its own', () => {
  const isOwn = createOwnAddresses(() => ['127.0.0.1:53', '[::1]:53', '0.0.0.0:15053']);
  assert.ok(isOwn('127.0.0.1', 53));
  assert.ok(isOwn('::1', 53));
  assert.ok(isOwn('127.0.0.5', 15053));
  assert.ok(!isOwn('127.0.0.53', 53));
  assert.ok(!isOwn('192.0.2.1', 15053));
});
