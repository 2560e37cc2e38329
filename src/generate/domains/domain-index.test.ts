import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Memos } from '../../core/memo.ts';
import * as fc from '../../core/testing/properties.ts';
import { httpPort, serviceOf } from '../testing/routes.ts';
import { domainIndex, ownHosts } from './domain-index.ts';
import { viewerOf } from './service-domains.ts';

const MEMOS = new Memos();

const viewer = viewerOf('shop.svc.cluster.local');
const port = httpPort(80);
/** Large enough to be computed from the previous index. Some have an address in common. */
const POOL = Array.from({ length: 120 }, (_, i) => {
  const service = serviceOf(`s${String(i).padStart(3, '0')}`, [port], { addresses: [`10.0.0.${i % 115}`] });
  return { service, port };
});

test('a large index has the same content whatever the previous index was', () => {
  const without = fc.uniqueArray(fc.nat(POOL.length - 1), { maxLength: 30 });
  let clashing = 0;
  fc.assert(
    fc.property(fc.array(without, { minLength: 1, maxLength: 6 }), (steps) => {
      for (const gone of steps) {
        const entries = POOL.filter((_, index) => !gone.includes(index));
        const index = domainIndex(MEMOS, entries, 80, viewer);
        const domains = [...index.hosts.values()].flatMap((host) => host.domains);
        assert.deepEqual([...index.domains.keys()].sort(), [...new Set(domains)].sort());
        assert.equal(index.disjoint, new Set(domains).size === domains.length);
        assert.deepEqual(
          [...index.hosts.keys()],
          entries.map(({ service }) => service.hostname),
        );
        assert.deepEqual(
          index.ordered.map(({ name }) => name),
          entries.map(({ service }) => `${service.hostname}:80`).sort(),
        );
        if (!index.disjoint) clashing++;
      }
    }),
    { numRuns: 40 },
  );
  assert.ok(clashing > 5);
});

test('an unchanged service is the same object in the next index', () => {
  const before = domainIndex(MEMOS, POOL.slice(1), 80, viewer);
  const after = domainIndex(MEMOS, POOL.slice(2), 80, viewer);
  assert.ok(after.ordered.every((host) => before.ordered.includes(host)));
});

test('viewers without own services have none however many there are, and others keep theirs', () => {
  const index = domainIndex(MEMOS, POOL, 80, viewer);
  const home = viewerOf('default.svc.cluster.local');
  const own = ownHosts(MEMOS, index, home);
  assert.equal(own.hosts.size, POOL.length);
  for (let round = 0; round < 2; round++)
    for (let at = 0; at < 1500; at++) {
      const other = ownHosts(MEMOS, index, viewerOf(`other-${at}.svc.cluster.local`));
      assert.deepEqual([other.hosts.size, other.domains, other.byDomain.size], [0, [], 0]);
    }
  assert.equal(ownHosts(MEMOS, index, home), own);
});
