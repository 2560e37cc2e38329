import assert from 'node:assert/strict';
import { test } from 'node:test';
import { controlPlane } from './control-plane.ts';

const at = (address: string, more: { authPolicy?: 'NONE' | 'MUTUAL_TLS'; customHost?: string } = {}) =>
  controlPlane({ authPolicy: undefined, customHost: '', namespace: 'ns', source: 'S', address, ...more });

test('port 15010 is plain text and every other one TLS, unless the policy decides otherwise', () => {
  assert.equal(at('meshd:15010').tls, false);
  assert.equal(at('meshd:15012').tls, true);
  assert.equal(at('meshd:1', { authPolicy: 'NONE' }).tls, false);
  assert.equal(at('meshd:15010', { authPolicy: 'MUTUAL_TLS' }).tls, true);
});

test('the certificate must have the name of the address, the default name for an IP address, or the custom one', () => {
  assert.equal(at('meshd.a.svc:15012').serverName, 'meshd.a.svc');
  assert.equal(at('10.0.0.1:15012').serverName, 'meshd.ns.svc');
  assert.deepEqual(at('[::1]:15012'), { host: '::1', port: 15012, tls: true, serverName: 'meshd.ns.svc' });
  assert.equal(at('10.0.0.1:15012', { customHost: 'c.example, d.example' }).serverName, 'c.example');
});

test('anything else is refused with its source', () => {
  for (const address of ['', 'meshd', 'meshd:', ':15012', 'meshd:0', 'meshd:65536', 'http://a:1', 'a b:1'])
    assert.throws(() => at(address), { code: 'invalid_argument', location: { file: 'S' } }, address);
});
