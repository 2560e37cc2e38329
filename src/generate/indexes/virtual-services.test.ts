import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Memos } from '../../core/memo.ts';
import * as fc from '../../core/testing/properties.ts';
import { hostMatches } from '../../model/common/hosts.ts';
import { virtualServiceOf } from '../testing/routes.ts';
import { targetHosts, virtualServicesFor, virtualServicesForAny } from './virtual-services.ts';

const MEMOS = new Memos();

const host = fc.constantFrom(
  'a.example.com',
  'b.example.com',
  'a.b.example.com',
  '*.example.com',
  '*.b.example.com',
  '*',
);
const lists = fc.array(fc.array(host, { maxLength: 3 }), { maxLength: 6 });

test('the virtual services for a host are those with a matching host, in their order', () => {
  fc.assert(
    fc.property(lists, host, (hosts, asked) => {
      const list = hosts.map((each, index) => virtualServiceOf({ hosts: each }, { name: `v${index}` }));
      const expected = list.filter((each) => each.hosts.some((pattern) => hostMatches(pattern, asked)));
      assert.deepEqual(virtualServicesFor(MEMOS, list, asked), expected);
      // The index exists now, and gives the same result.
      assert.deepEqual(virtualServicesFor(MEMOS, list, asked), expected);
    }),
  );
});

const destination = fc.constantFrom('a.example.com', 'b.example.com');

test('the virtual services for some hosts are all those for one of them, in their order', () => {
  fc.assert(
    fc.property(lists, fc.array(host, { maxLength: 3 }), (hosts, asked) => {
      const list = hosts.map((each, index) => virtualServiceOf({ hosts: each }, { name: `v${index}` }));
      const found = virtualServicesForAny(MEMOS, list, asked);
      assert.deepEqual(
        found,
        list.filter((each) => found.includes(each)),
      );
      for (const each of list) {
        const common = each.hosts.some((own) =>
          asked.some((other) => hostMatches(own, other) || hostMatches(other, own)),
        );
        assert.ok(!common || found.includes(each));
      }
      if (!asked.some((each) => each.startsWith('*'))) {
        assert.ok(found.every((each) => each.hosts.some((own) => asked.some((other) => hostMatches(own, other)))));
      }
    }),
  );
});

test('the target hosts of a list are the destinations of its routes', () => {
  fc.assert(
    fc.property(fc.array(destination, { maxLength: 6 }), (destinations) => {
      const list = destinations.map((to, index) => {
        const route = [{ destination: { host: to } }];
        return virtualServiceOf(
          { hosts: ['a'], [index % 2 === 0 ? 'http' : 'tcp']: [{ route }] },
          { name: `v${index}` },
        );
      });
      assert.deepEqual(targetHosts(MEMOS, list), new Set(destinations));
      assert.equal(targetHosts(MEMOS, list), targetHosts(MEMOS, list));
    }),
  );
});
