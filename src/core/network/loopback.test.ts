import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isLoopbackAddress, notLocal } from './loopback.ts';

test('loopback addresses are recognized in the forms of sockets, and the source address of sidecars is none', () => {
  for (const yes of ['127.0.0.1', '127.8.9.1', '::1', '::ffff:127.0.0.1']) assert.ok(isLoopbackAddress(yes), yes);
  for (const no of ['127.0.0.6', '::ffff:127.0.0.6', '10.0.0.1', '::ffff:10.127.0.1', '2001:db8::1', '', undefined]) {
    assert.ok(!isLoopbackAddress(no), no);
  }
});

const REASONS: readonly [name: string, remoteAddress: string, headers: Record<string, string>, reason?: RegExp][] = [
  ['localhost', '127.0.0.1', { host: 'localhost:8080' }],
  ['an IPv4 address', '::ffff:127.0.0.1', { host: '127.0.0.1:8080' }],
  ['an IPv6 address', '::1', { host: '[::1]:8080' }],
  [
    'a page of the program itself',
    '::1',
    { host: 'localhost', origin: 'http://localhost:8080', 'sec-fetch-site': 'same-origin' },
  ],
  ['another machine', '192.0.2.1', { host: 'localhost' }, /loopback address/],
  ['DNS rebinding', '127.0.0.1', { host: 'evil.example:8080' }, /Host/],
  ['a name that begins like loopback', '127.0.0.1', { host: '127.0.0.1.evil.example' }, /Host/],
  ['an address with more behind it', '127.0.0.1', { host: '[::1].evil.example' }, /Host/],
  ['no Host', '127.0.0.1', {}, /Host/],
  ['a sidecar', '127.0.0.6', { host: 'localhost' }, /loopback address/],
  ['a reverse proxy', '127.0.0.1', { host: 'localhost', 'x-forwarded-for': '192.0.2.1' }, /proxy/],
  ['a load balancer', '127.0.0.1', { host: 'localhost', 'true-client-ip': '192.0.2.1' }, /proxy/],
  ['an Envoy', '127.0.0.1', { host: 'localhost', 'x-envoy-expected-rq-timeout-ms': '1' }, /proxy/],
  ['a fetch for a policy', '127.0.0.1', { host: 'localhost', 'x-meshd-fetch': 'keys' }, /policy/],
  [
    'a script of another page',
    '127.0.0.1',
    { host: 'localhost', origin: 'https://evil.example' },
    /page of another site/,
  ],
  [
    'an image of another page',
    '127.0.0.1',
    { host: 'localhost', 'sec-fetch-site': 'cross-site' },
    /page of another site/,
  ],
];

test('a request is local when address, Host and headers say so', () => {
  for (const [name, remoteAddress, headers, reason] of REASONS) {
    const found = notLocal({ url: '/debug', headers, socket: { remoteAddress } });
    if (reason === undefined) assert.equal(found, undefined, name);
    else assert.match(found ?? 'local', reason, name);
  }
  const absolute = {
    url: 'http://evil.example/debug',
    headers: { host: 'localhost' },
    socket: { remoteAddress: '::1' },
  };
  assert.match(notLocal(absolute) ?? 'local', /Host/);
});
