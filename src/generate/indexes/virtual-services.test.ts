import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { hostMatches } from '../../model/hosts.ts';
import { virtualServiceOf } from '../routes/testing.ts';
import { virtualServicesFor } from './virtual-services.ts';

const host = fc.constantFrom(
  'a.example.com',
  'b.example.com',
  'a.b.example.com',
  '*.example.com',
  '*.b.example.com',
  '*',
);
const lists = fc.array(fc.array(host, { maxLength: 3 }), { maxLength: 6 });

test('those that are for a host are those of which some host matches it, in their order', () => {
  fc.assert(
    fc.property(lists, host, (hosts, asked) => {
      const list = hosts.map((each, index) => virtualServiceOf({ hosts: each }, { name: `v${index}` }));
      const expected = list.filter((each) => each.hosts.some((pattern) => hostMatches(pattern, asked)));
      assert.deepEqual(virtualServicesFor(list, asked), expected);
      // The index is there now, and says the same.
      assert.deepEqual(virtualServicesFor(list, asked), expected);
    }),
  );
});
