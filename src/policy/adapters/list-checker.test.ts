import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import type { Value } from '../../expressions/index.ts';
import type { ListParams } from '../types.ts';
import { openListChecker } from './list-checker.ts';
import { entriesOf } from './list-entries.ts';
import { CALL, entry, type TestHost, testHost } from './testing/host.ts';

const PARAMS: ListParams = {
  refreshIntervalMs: 60_000,
  ttlMs: 300_000,
  cachingIntervalMs: 0,
  cachingUseCount: 0,
  overrides: [],
  entryType: 'STRINGS',
  blacklist: false,
};

async function codeFor(params: Partial<ListParams>, value: Value, host: TestHost = testHost()): Promise<number> {
  const handler = openListChecker('list.shop', { ...PARAMS, ...params }, host);
  const result = await handler.check?.(entry(value), CALL);
  return result?.status.code ?? -1;
}

const ADDRESS = (text: string) => Uint8Array.from(text.split('.').map(Number));

for (const [what, params, value, code] of [
  ['a listed string is allowed', { overrides: ['v1'] }, 'v1', 0],
  ['another string is refused', { overrides: ['v1'] }, 'v2', 7],
  ['a listed string is refused by a list of refused values', { overrides: ['v1'], blacklist: true }, 'v1', 7],
  ['another string is allowed by it', { overrides: ['v1'], blacklist: true }, 'v2', 0],
  ['strings differ by case', { overrides: ['V1'] }, 'v1', 7],
  ['unless they are compared without it', { overrides: ['V1'], entryType: 'CASE_INSENSITIVE_STRINGS' }, 'v1', 0],
  [
    'an address in a range is listed',
    { overrides: ['10.1.0.0/16'], entryType: 'IP_ADDRESSES' },
    ADDRESS('10.1.9.9'),
    0,
  ],
  ['one outside is not', { overrides: ['10.1.0.0/16'], entryType: 'IP_ADDRESSES' }, ADDRESS('10.2.0.1'), 7],
  ['every IPv4 address is in 0.0.0.0/0', { overrides: ['0.0.0.0/0'], entryType: 'IP_ADDRESSES' }, '9.9.9.9', 0],
  ['an IPv6 address is not in 0.0.0.0/0', { overrides: ['0.0.0.0/0'], entryType: 'IP_ADDRESSES' }, '2001:db8::1', 7],
  ['IPv6 ranges', { overrides: ['2001:db8::/33'], entryType: 'IP_ADDRESSES' }, '2001:db8:7fff::1', 0],
  ['IPv6 ranges end', { overrides: ['2001:db8::/33'], entryType: 'IP_ADDRESSES' }, '2001:db8:8000::1', 7],
  [
    'a mapped IPv4 address is that address',
    { overrides: ['10.1.0.0/16'], entryType: 'IP_ADDRESSES' },
    '::ffff:10.1.2.3',
    0,
  ],
  ['a mapped IPv4 address in the list', { overrides: ['::ffff:10.1.2.3'], entryType: 'IP_ADDRESSES' }, '10.1.2.3', 0],
  ['a mapped range', { overrides: ['::ffff:10.1.0.0/112'], entryType: 'IP_ADDRESSES' }, '::ffff:10.1.9.9', 0],
  ['the end of it', { overrides: ['::ffff:10.1.0.0/112'], entryType: 'IP_ADDRESSES' }, '10.2.0.1', 7],
  ['a pattern matches anywhere', { overrides: ['v[0-9]'], entryType: 'REGEX' }, 'is v7', 0],
  ['a pattern that does not match', { overrides: ['^v[0-9]$'], entryType: 'REGEX' }, 'v77', 7],
] satisfies readonly (readonly [string, Partial<ListParams>, Value, number])[]) {
  test(what, async () => assert.equal(await codeFor(params, value), code));
}

test('entries that are not usable are refused with their text', () => {
  assert.throws(() => entriesOf('IP_ADDRESSES', ['10.0.0.0/33']), /"10.0.0.0\/33" is not an address or range/);
  assert.throws(() => entriesOf('IP_ADDRESSES', ['name']), /"name" is not an address or range/);
  assert.throws(() => entriesOf('REGEX', ['(']), /"\(": expected a regular expression/);
  assert.throws(() => entriesOf('REGEX', Array<string>(501).fill('a')), /501 entries, at most 500/);
});

test('patterns that cost too much are refused, and values that are too long for all of them', async () => {
  assert.throws(() => entriesOf('REGEX', ['(a{1000}){1000}']), /expected a (?:simpler )?regular expression/);
  const patterns = Array.from({ length: 500 }, (_, index) => `^[a-z]{20}${index}$`);
  const check = (value: string) => codeFor({ overrides: patterns, entryType: 'REGEX' }, value);
  assert.equal(await check(`${'a'.repeat(20)}7`), 0);
  await assert.rejects(async () => check('a'.repeat(8_000)), /too many for the patterns of the list/);
});

test('a value that is too long, or no address, is not compared', async () => {
  await assert.rejects(
    async () => codeFor({ overrides: ['a'], entryType: 'REGEX' }, 'a'.repeat(10_000)),
    /longer than/,
  );
  await assert.rejects(async () => codeFor({ entryType: 'IP_ADDRESSES' }, 'name'), /not an IP address/);
});

test('the list of a provider is read again and again, and the last good one stays until it is too old', async () => {
  let [body, status, requests] = ['# a comment\nv1\n\n v2 \n', 200, 0];
  const host = testHost({
    fetch: async () => {
      requests++;
      return new Response(body, { status });
    },
  });
  const handler = openListChecker('list.shop', { ...PARAMS, providerUrl: 'http://list/' }, host);
  const code = async (value: string) => (await handler.check?.(entry(value), CALL))?.status.code;
  assert.deepEqual([await code('v1'), await code('v2'), await code('v3')], [0, 0, 7]);
  body = 'v3';
  host.advance(60_000);
  await waitUntil(() => requests === 2 && handler.workers === 0);
  assert.deepEqual([await code('v1'), await code('v3')], [7, 0]);
  status = 500;
  host.advance(60_000);
  await waitUntil(() => requests === 3 && handler.workers === 0);
  assert.equal(await code('v3'), 0);
  assert.match(host.logged.join('\n'), /the list of handler list.shop cannot be read: the provider returned HTTP 500/);
  host.advance(300_000);
  await waitUntil(() => handler.workers === 0);
  await assert.rejects(code('v3'), /cannot be read from its provider/);
  assert.equal(handler.daemons, 1);
  await handler.close();
  assert.equal(host.loops, 0);
});

test('a provider may redirect, but not forever, and a list that is too long is refused', async () => {
  const read = async (fetch: TestHost['fetch']) => codeFor({ providerUrl: 'http://list/' }, 'v1', testHost({ fetch }));
  const redirect = (location: string) => new Response(null, { status: 302, headers: { location } });
  assert.equal(await read(async (url) => (url.endsWith('/b') ? new Response('v1') : redirect('/b'))), 0);
  await assert.rejects(
    read(async () => redirect('/again')),
    /cannot be read from its provider/,
  );
  await assert.rejects(
    read(async () => redirect('file:///etc/passwd')),
    /cannot be read from its provider/,
  );
  await assert.rejects(
    read(async () => new Response('x'.repeat(5 * 1024 * 1024))),
    /cannot be read/,
  );
});
