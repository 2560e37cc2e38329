import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fqdn, meshOf, resource, service, step } from '../testing/build.ts';
import type { Scope } from '../types/types.ts';

const hostsOf = (scope: Scope) => scope.services.sorted().map(([host]) => host);

test('the egress proxy of a Sidecar is a service of the scope that no listener has', () => {
  const egressProxy = { host: fqdn('out.b'), port: { number: 80 } };
  const documents = (mode: string) => [
    service('a/web'),
    resource('Sidecar', 'a/s', { egress: [{ hosts: ['./*'] }], outboundTrafficPolicy: { mode, egressProxy } }),
  ];
  const before = meshOf(documents('ALLOW_ANY'));
  assert.deepEqual(before.scopeOf('a', {}).egressProxy, egressProxy);
  assert.deepEqual(hostsOf(before.scopeOf('a', {})), [fqdn('web.a')]);
  const scope = step(before, [service('b/out')]).snapshot.scopeOf('a', {});
  assert.deepEqual(hostsOf(scope), [fqdn('web.a'), fqdn('out.b')].sort());
  assert.equal(scope.egress[0]?.services.get(fqdn('out.b')), undefined);
});
