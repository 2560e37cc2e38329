import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { MeshReader } from '../../reads/index.ts';
import { guarded, policyOf } from '../../testing/authorization.ts';
import { passes } from '../../testing/rbac.ts';
import { connectionRules, requestRules } from './index.ts';

/** Shows a name of the mesh, in a certificate that another authority issued. */
const CLIENT = { peer: ['spiffe://cluster.local/ns/shop/sa/web'], from: '192.0.2.1', method: 'GET' };

function isAllowed(spec: string, certificates: 'mesh' | 'foreign'): boolean {
  const { snapshot, view } = guarded([policyOf({ spec })]);
  const reader = MeshReader.of(snapshot);
  const { external, local } = requestRules(reader, view, certificates);
  const { filters } = connectionRules(reader, view, certificates);
  const allowed = passes([...external, ...local], CLIENT);
  assert.equal(passes(filters, CLIENT), allowed, 'connections like requests');
  return allowed;
}

describe('clients whose certificate is not of the mesh have no identity', () => {
  const from = (fields: string) => `{from: [{source: {${fields}}}]}`;
  const when = (key: string, value: string) => `{when: [{key: ${key}, values: [${value}]}]}`;
  const rows: readonly (readonly [rule: string, matchesMesh: boolean, matchesForeign: boolean])[] = [
    [from('principals: [cluster.local/ns/shop/sa/web]'), true, false],
    [from("principals: ['*']"), true, false],
    [from("notPrincipals: ['*']"), false, true],
    [from('namespaces: [shop]'), true, false],
    [from('notNamespaces: [shop]'), false, true],
    [from('serviceAccounts: [web]'), true, false],
    [when('source.principal', 'cluster.local/ns/shop/sa/web'), true, false],
    [when('source.namespace', 'shop'), true, false],
    // Everything else about them counts.
    [from('ipBlocks: [192.0.2.0/24]'), true, true],
    ['{}', true, true],
  ];
  for (const [rule, matchesMesh, matchesForeign] of rows) {
    test(rule, () => {
      for (const [certificates, matches] of [
        ['mesh', matchesMesh],
        ['foreign', matchesForeign],
      ] as const) {
        assert.equal(isAllowed(`{rules: [${rule}]}`, certificates), matches, `ALLOW, ${certificates}`);
        assert.equal(isAllowed(`{action: DENY, rules: [${rule}]}`, certificates), !matches, `DENY, ${certificates}`);
      }
    });
  }
});
