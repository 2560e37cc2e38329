import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findHost, type NameScope } from './lookup.ts';
import { createNameTable } from './name-table.ts';

const scopeOf = (names: readonly string[], more: Partial<NameScope> = {}): NameScope => ({
  table: createNameTable(names.map((name) => [name, { ips: ['10.0.0.1'] }])),
  namespace: 'shop',
  domain: 'svc.cluster.local',
  search: 'shop.svc.cluster.local',
  ...more,
});

const host = (name: string, scope: NameScope) => findHost(name, scope)?.host;

/** Without the place in the table. */
function found(name: string, scope: NameScope) {
  const match = findHost(name, scope);
  return match && { host: match.host, alias: match.alias };
}

const WEB = 'web.shop.svc.cluster.local';

test('short forms of services in the same namespace and in others', () => {
  const scope = scopeOf([WEB, 'cart.store.svc.cluster.local', 'web-0.web.shop.svc.cluster.local']);
  for (const name of [WEB, 'web.shop.svc', 'web.shop', 'web']) assert.equal(host(name, scope), WEB, name);
  assert.equal(host('cart.store', scope), 'cart.store.svc.cluster.local');
  assert.equal(host('cart', scope), undefined, 'a service of another namespace');
  assert.equal(host('web-0.web', scope), 'web-0.web.shop.svc.cluster.local');
});

test('without a domain there are no short forms', () => {
  assert.equal(host('web.shop', scopeOf([WEB], { domain: undefined })), undefined);
  assert.equal(host('web', scopeOf([WEB], { namespace: undefined })), undefined);
});

test('the same namespace comes before others, as in the search list of a pod', () => {
  const scope = scopeOf(['a.b.shop.svc.cluster.local', 'a.b.svc.cluster.local']);
  assert.equal(host('a.b', scope), 'a.b.shop.svc.cluster.local');
});

test('a name with the first search domain appended leads to the name', () => {
  const scope = scopeOf([WEB, 'www.example.com', '*.wild.example.com']);
  assert.deepEqual(found('www.example.com.shop.svc.cluster.local', scope), {
    host: 'www.example.com',
    alias: 'www.example.com',
  });
  assert.deepEqual(found('a.b.wild.example.com.shop.svc.cluster.local', scope), {
    host: '*.wild.example.com',
    alias: 'a.b.wild.example.com',
  });
  assert.deepEqual(found(WEB, scope), { host: WEB, alias: undefined }, 'a registered name is not an expanded one');
  assert.equal(findHost('shop.svc.cluster.local', scope), undefined);
  assert.equal(findHost('www.example.comshop.svc.cluster.local', scope), undefined);
});

test('the longest wildcard wins, at any depth, and names win over wildcards', () => {
  const scope = scopeOf(['*.example.com', '*.deep.example.com', 'www.deep.example.com', '*.cluster.local']);
  assert.equal(host('x.example.com', scope), '*.example.com');
  assert.equal(host('a.b.c.example.com', scope), '*.example.com');
  assert.equal(host('a.deep.example.com', scope), '*.deep.example.com');
  assert.equal(host('www.deep.example.com', scope), 'www.deep.example.com');
  assert.equal(host('example.com', scope), undefined, 'a wildcard does not include its own domain');
  assert.equal(host('www.deep.example.com.shop.svc.cluster.local', scope), 'www.deep.example.com');
  assert.equal(host('x.example.com.shop.svc.cluster.local', scope), '*.example.com', 'longer than *.cluster.local');
  assert.equal(host('other.org.shop.svc.cluster.local', scope), '*.cluster.local');
});

test('invalid names and addresses are left out and counted', () => {
  const entries = [
    ['OK.example.com.', { ips: ['10.0.0.1', 'nonsense', '::1'] }],
    ['', { ips: [] }],
    ['a..b', { ips: [] }],
    [`${'x'.repeat(64)}.com`, { ips: [] }],
    ['with space.com', { ips: [] }],
    [Array.from({ length: 130 }, () => 'a').join('.'), { ips: [] }],
  ] as const;
  const table = createNameTable(entries);
  assert.deepEqual([table.size, table.invalid, table.wildcards], [1, 6, 0]);
  const id = table.find('ok.example.com');
  assert.ok(id !== undefined);
  assert.equal(table.findWire('\x02ok\x07example\x03com'), id);
  assert.deepEqual([...table.addresses(id, 4)], [10, 0, 0, 1]);
  assert.equal(table.addresses(id, 6).length, 16);
});
