import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AgentSettings } from '../../settings/index.ts';
import { policyIdentity } from './policy-identity.ts';

const ID = 'spiffe://mesh.test/ns/a/sa/b';
const settings = (policyIdentity: string, xdsLocal = '') =>
  ({ policyIdentity, xdsLocal, meshNamespace: '' }) as AgentSettings;
const at = (tls: boolean) => [{ host: 'meshd', port: 1, tls, serverName: 'meshd' }];

test('--policyIdentity is required of the component by Envoy, or by the agent between them', () => {
  for (const [given, tls, hasTemplate, expected] of [
    [settings('ns/a/sa/b'), true, false, { required: ID, inBootstrap: true }],
    [settings('ns/a/sa/b', '/XDS'), true, false, { required: ID, inBootstrap: false }],
    // A template names its clusters itself.
    [settings('ns/a/sa/b'), true, true, { required: ID, inBootstrap: false }],
    [settings(''), true, false, { required: undefined, inBootstrap: false }],
    [settings('ns/a/sa/b'), false, true, { required: undefined, inBootstrap: false }],
  ] as const) {
    const { required, inBootstrap, warnings } = policyIdentity(given, 'mesh.test', at(tls), hasTemplate);
    assert.deepEqual({ required, inBootstrap }, expected);
    assert.deepEqual(warnings, []);
  }
});

test('in plain text nothing can be verified, which is a warning', () => {
  const { required, warnings } = policyIdentity(settings('ns/a/sa/b'), 'mesh.test', at(false), false);
  assert.equal(required, undefined);
  assert.deepEqual(warnings, ['--policyIdentity has no effect: the control plane is reached in plain text']);
});

test('templates have the identity of a service account of the control plane without the flag', () => {
  const { san } = policyIdentity(settings(''), 'mesh.test', at(true), true);
  assert.equal(san, 'spiffe://mesh.test/ns/mesh-system/sa/mesh-policy-service-account');
});
