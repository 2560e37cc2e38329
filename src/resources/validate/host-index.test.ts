/** The hosts of a VirtualService compared with each other, as few of them and as many as an object can hold. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkDocument, documentLimits } from '../index.ts';
import { HostIndex } from './host-index.ts';

const HOSTS = ['a.b.c', 'b.c', '*.b.c', '*.c', '*', 'A.B.C', 'a.b.c.', 'xb.c', '*.xb.c', '*.a.b.c', 'c', '10.0.0.1'];

/** Whether all of `host` belongs to `pattern`. */
function covers(pattern: string, host: string): boolean {
  const [covering = '', covered = ''] = [pattern, host].map((text) => text.toLowerCase().replace(/\.$/, ''));
  if (!covering.startsWith('*')) return covering === covered;
  return covered.replace(/^\*/, '').endsWith(covering.slice(1));
}

test('the first host that covers or overlaps another is found, as by comparing all of them', () => {
  for (let from = 0; from < HOSTS.length; from++) {
    const hosts = [...HOSTS.slice(from), ...HOSTS.slice(0, from)];
    for (let size = 0; size <= hosts.length; size++) {
      const some = hosts.slice(0, size);
      const index = new HostIndex(some);
      for (const host of HOSTS) {
        const position = (found: number): number | undefined => (found < 0 ? undefined : found);
        const covering = some.findIndex((other) => covers(other, host));
        const overlapping = some.findIndex((other) => covers(other, host) || covers(host, other));
        assert.equal(index.covering(host), position(covering), `${host} in ${some.join()}`);
        assert.equal(index.overlapping(host), position(overlapping), `${host} in ${some.join()}`);
      }
    }
  }
});

test('a VirtualService with 100,000 hosts is checked', () => {
  const hosts = Array.from({ length: 100_000 }, (_, index) => `h${index}.example.com`);
  const route = [{ destination: { host: 'web' } }];
  const document = {
    apiVersion: 'networking.mesh.io/v1alpha3',
    kind: 'VirtualService',
    metadata: { name: 'web', namespace: 'shop' },
    spec: { hosts: [...hosts, '*.example.com'], tls: [{ match: [{ sniHosts: hosts }], route }] },
  };
  const checked = checkDocument(document, documentLimits(1000));
  assert.deepEqual(checked?.errors, [{ field: 'spec.hosts[100000]', message: 'overlaps with host "h0.example.com"' }]);
});

test('a text that is too long for a host is not indexed', () => {
  const index = new HostIndex(['a.'.repeat(500_000), '*.c']);
  assert.equal(index.overlapping('a.'.repeat(500_000)), undefined);
  assert.equal(index.overlapping('b.c'), 1);
});
