import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { fullHostname, hostMatches, hostsOverlap, matchingPatterns } from './hosts.ts';

test('wildcards match names below their suffix', () => {
  const rows: [pattern: string, host: string, matches: boolean][] = [
    ['*', 'a', true],
    ['*', '*', true],
    ['*.foo.com', 'a.foo.com', true],
    ['*.foo.com', 'a.b.foo.com', true],
    ['*.foo.com', 'foo.com', false],
    ['*.foo.com', '*.foo.com', true],
    ['*.foo.com', '*.b.foo.com', true],
    ['*.b.foo.com', '*.foo.com', false],
    ['*.foo.com', '*', false],
    ['a.foo.com', 'a.foo.com', true],
    ['a.foo.com', '*.foo.com', false],
  ];
  for (const [pattern, host, matches] of rows) assert.equal(hostMatches(pattern, host), matches, `${pattern} ${host}`);
  assert.ok(hostsOverlap('a.foo.com', '*.foo.com'));
  assert.ok(!hostsOverlap('*.foo.com', '*.bar.com'));
});

test('the patterns of a host are those that match it, most specific first', () => {
  assert.deepEqual(matchingPatterns('a.b.c'), ['a.b.c', '*.b.c', '*.c', '*']);
  assert.deepEqual(matchingPatterns('*.b.c'), ['*.b.c', '*.c', '*']);
  assert.deepEqual(matchingPatterns('*'), ['*']);
  const host = fc.array(fc.constantFrom('a', 'b'), { minLength: 1, maxLength: 4 }).map((parts) => parts.join('.'));
  const pattern = fc.oneof(
    host,
    fc.constant('*'),
    host.map((name) => `*.${name}`),
  );
  fc.assert(
    fc.property(pattern, pattern, (one, other) => {
      assert.equal(matchingPatterns(other).includes(one), hostMatches(one, other));
    }),
  );
});

test('short names are completed; full names, wildcards and addresses are not changed', () => {
  assert.equal(fullHostname('Web', 'a', 'cluster.local'), 'web.a.svc.cluster.local');
  for (const host of ['web.b', '*', '*.com', 'fd00::1']) assert.equal(fullHostname(host, 'a', 'cluster.local'), host);
});
