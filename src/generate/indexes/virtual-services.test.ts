import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { hostMatches } from '../../model/hosts.ts';
import { virtualServiceOf } from '../routes/testing.ts';
import { targetHosts, virtualServicesAbout, virtualServicesFor } from './virtual-services.ts';

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

const destination = fc.constantFrom('a.example.com', 'b.example.com');

test('those about a host are for it or lead to it; the hosts that a list leads to are the destinations of its routes', () => {
  const services = fc.array(fc.record({ hosts: fc.array(host, { maxLength: 2 }), to: destination }), { maxLength: 6 });
  fc.assert(
    fc.property(services, destination, (entries, asked) => {
      const list = entries.map(({ hosts, to }, index) => {
        const route = [{ destination: { host: to } }];
        return virtualServiceOf({ hosts, [index % 2 === 0 ? 'http' : 'tcp']: [{ route }] }, { name: `v${index}` });
      });
      const about = list.filter(
        (each, index) => entries[index]?.to === asked || each.hosts.some((pattern) => hostMatches(pattern, asked)),
      );
      assert.deepEqual(new Set(virtualServicesAbout(list, asked)), new Set(about));
      assert.deepEqual(targetHosts(list), new Set(entries.map(({ to }) => to)));
      assert.equal(targetHosts(list), targetHosts(list));
    }),
  );
});
