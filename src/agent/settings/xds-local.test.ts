import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dialedAddress, exposureOf, parseXdsLocal } from './xds-local.ts';

test('XDS_LOCAL is a socket or an address; a port alone is one of loopback', () => {
  const cases = {
    './etc/mesh/proxy/XDS': { path: './etc/mesh/proxy/XDS' },
    'unix:XDS': { path: 'XDS' },
    'unix:///run/xds': { path: '/run/xds' },
    'unix:/run/xds': { path: '/run/xds' },
    ':15002': { host: '127.0.0.1', port: 15002 },
    '[::1]:15002': { host: '::1', port: 15002 },
    '*:15002': { host: '::', port: 15002 },
    '10.0.0.1:15002': { host: '10.0.0.1', port: 15002 },
  };
  for (const [text, expected] of Object.entries(cases)) assert.deepEqual(parseXdsLocal(text, '127.0.0.1'), expected);
  assert.equal(parseXdsLocal('', '127.0.0.1'), undefined);
});

test('any other value of XDS_LOCAL is refused with the name of the variable', () => {
  for (const text of ['XDS', ':0', ':99999', 'localhost'])
    assert.throws(() => parseXdsLocal(text, '::1'), { message: /is neither a path nor an address/ });
});

test('an address that other machines reach is warned of, and Envoy uses loopback of all addresses', () => {
  assert.deepEqual(exposureOf({ host: '127.0.0.1', port: 1 }), []);
  assert.deepEqual(exposureOf({ path: 'XDS' }), []);
  assert.match(exposureOf({ host: '::', port: 1 })[0] ?? '', /XDS_LOCAL listens on ::/);
  assert.deepEqual(dialedAddress({ host: '::', port: 1 }, '::1'), { host: '::1', port: 1 });
});
