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
  [
    'settings of a port in a subset replace those of the subset',
    rule,
    'own',
    82,
    { lb: 'RANDOM', max: 10, tls: 'DISABLE' },
  ],
  ['settings of a port in the rule hold for subsets, too', rule, 'plain', 81, { lb: 'ROUND_ROBIN' }],
  ['the policy of a subset applies over settings of a port in the rule', rule, 'own', 81, { lb: 'LEAST_REQUEST' }],
] as const;

for (const [name, given, subset, port, expected] of rows) {
  test(name, () => {
    const { loadBalancer, connectionPool, tls } = effectivePolicy(given, subset, port);
    const seen = { lb: loadBalancer?.simple, max: connectionPool?.tcp?.maxConnections, tls: tls?.mode };
    assert.deepEqual(JSON.parse(JSON.stringify(seen)), expected);
  });
}

const SETTINGS = ['connectionPool', 'loadBalancer', 'outlierDetection', 'tls'] as const;

/** A value of a setting for each place where it can be written. */
const VALUES = {
  connectionPool: (n: number) => ({ tcp: { maxConnections: n } }),
  loadBalancer: (n: number) => ({ warmupDurationSecs: n }),
  outlierDetection: (n: number) => ({ consecutive5xxErrors: n }),
  tls: (n: number) => ({ mode: 'SIMPLE' as const, sni: `${n}.example.com` }),
};

test('every setting, wherever it is written: the port before all ports, the subset before the rule', () => {
  for (const setting of SETTINGS) {
    const other = setting === 'tls' ? 'loadBalancer' : 'tls';
    for (let places = 0; places < 16; places++) {
      const [inRule, ofRulePort, inSubset, ofSubsetPort] = [1, 2, 4, 8].map((bit) => (places & bit) !== 0);
      const written = (present: boolean | undefined, n: number) =>
        present === true ? { [setting]: VALUES[setting](n) } : {};
      // Each place also has another setting, so that settings of the port exist without this one.
      const policy = (n: number, all: boolean | undefined, ofPort: boolean | undefined, hasPort: boolean) => ({
        ...written(all, n),
        [other]: VALUES[other](n),
        ...(hasPort && {
          portLevelSettings: [{ port: { number: 81 }, ...written(ofPort, n + 1), [other]: VALUES[other](n + 1) }],
        }),
      });
      for (const [rulePort, subsetPort] of [
        [false, false],
        [false, true],
        [true, false],
        [true, true],
      ] as const) {
        const given: MergedDestinationRule = {
          ...rule,
          trafficPolicy: policy(10, inRule, ofRulePort, rulePort),
          subsets: [{ name: 'own', trafficPolicy: policy(20, inSubset, ofSubsetPort, subsetPort) }],
        };
        const ofSubset = subsetPort ? (ofSubsetPort === true ? 21 : 0) : inSubset === true ? 20 : 0;
        const ofRule = rulePort ? (ofRulePort === true ? 11 : 0) : inRule === true ? 10 : 0;
        const expected = ofSubset || ofRule;
        const found = effectivePolicy(given, 'own', 81);
        assert.deepEqual(found[setting], expected === 0 ? undefined : VALUES[setting](expected));
        assert.deepEqual(found[other], VALUES[other](subsetPort ? 21 : 20));
      }
    }
  }
});

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
