import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MergedDestinationRule } from '../../model/types/types.ts';
import { effectivePolicy, gatewayPolicy } from './traffic-policy.ts';

const rule: MergedDestinationRule = {
  host: 'web.default.svc.cluster.local',
  namespace: 'default',
  sources: [],
  trafficPolicy: {
    loadBalancer: { simple: 'RANDOM' },
    connectionPool: { tcp: { maxConnections: 10 } },
    portLevelSettings: [{ port: { number: 81 }, loadBalancer: { simple: 'ROUND_ROBIN' } }],
  },
  subsets: [
    { name: 'plain' },
    {
      name: 'own',
      trafficPolicy: {
        loadBalancer: { simple: 'LEAST_REQUEST' },
        portLevelSettings: [{ port: { number: 82 }, tls: { mode: 'DISABLE' } }],
      },
    },
  ],
};

const rows = [
  ['without a rule everything is default', undefined, '', 80, {}],
  ['the rule holds for its ports', rule, '', 80, { lb: 'RANDOM', max: 10 }],
  ['settings of a port replace the rule entirely', rule, '', 81, { lb: 'ROUND_ROBIN' }],
  ['a subset without a policy has the rule', rule, 'plain', 80, { lb: 'RANDOM', max: 10 }],
  ['a policy of a subset replaces field by field', rule, 'own', 80, { lb: 'LEAST_REQUEST', max: 10 }],
  ['settings of a port in a subset replace both', rule, 'own', 82, { tls: 'DISABLE' }],
  ['settings of a port in the rule hold for subsets, too', rule, 'own', 81, { lb: 'ROUND_ROBIN' }],
] as const;

for (const [name, given, subset, port, expected] of rows) {
  test(name, () => {
    const { loadBalancer, connectionPool, tls } = effectivePolicy(given, subset, port);
    const seen = { lb: loadBalancer?.simple, max: connectionPool?.tcp?.maxConnections, tls: tls?.mode };
    assert.deepEqual(JSON.parse(JSON.stringify(seen)), expected);
  });
}

test('the policy of a subset is the same by its name and by itself', () => {
  for (const policyOf of [effectivePolicy, gatewayPolicy]) {
    for (const subset of rule.subsets)
      for (const port of [80, 81, 82])
        assert.deepEqual(policyOf(rule, subset, port), policyOf(rule, subset.name, port));
    for (const whole of ['', undefined, 'unknown'])
      assert.deepEqual(policyOf(rule, whole, 80), effectivePolicy(rule, '', 80));
  }
});

test('a subset is not searched among the others where it is known', () => {
  const [, own] = rule.subsets;
  const hidden = { ...rule, subsets: new Proxy(rule.subsets, { get: () => assert.fail('searched') }) };
  for (const policyOf of [effectivePolicy, gatewayPolicy])
    assert.equal(policyOf(hidden, own, 80).loadBalancer?.simple, 'LEAST_REQUEST');
});
