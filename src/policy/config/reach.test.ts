import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compiled } from '../testing/compiled.ts';
import { reachOf } from './reach.ts';

const PARTS = `
kind: handler
metadata: { name: deny }
spec: { compiledAdapter: denier }
---
kind: handler
metadata: { name: printed }
spec: { compiledAdapter: stdio }
---
kind: instance
metadata: { name: any }
spec: { compiledTemplate: checknothing }
---
kind: instance
metadata: { name: line }
spec: { compiledTemplate: logentry }
`;

const shop = {
  namespace: 'shop',
  facts: new Map([
    ['destination.namespace', 'shop'],
    ['destination.workload.name', 'cart'],
  ]),
};

const reach = (namespace: string, match: string, action = 'deny, instances: [any]') =>
  reachOf(
    compiled(`${PARTS}
---
kind: rule
metadata: { name: r, namespace: ${namespace} }
spec: { match: '${match}', actions: [{ handler: ${action.replace(/(any|line|deny|printed)/g, '$1.mesh-system')} }] }`),
    shop,
  );

const NONE = { checks: false, reports: false };

test('without rules, no traffic is reached', () => {
  assert.deepEqual(reachOf({ rules: [] }, shop), NONE);
});

test('rules of the configuration namespace and of the own one reach, those of others do not', () => {
  assert.deepEqual(reach('mesh-system', 'true'), { checks: true, reports: false });
  assert.deepEqual(reach('shop', 'true'), { checks: true, reports: false });
  assert.deepEqual(reach('bank', 'true'), NONE);
});

test('a condition that requires another value of a known attribute does not reach', () => {
  assert.deepEqual(reach('mesh-system', 'destination.namespace == "bank" && request.path == "/"'), NONE);
  assert.deepEqual(reach('mesh-system', '"cart" == destination.workload.name'), { checks: true, reports: false });
});

test('a condition that cannot be decided reaches', () => {
  for (const match of ['destination.namespace != "shop"', 'destination.namespace == "bank" || request.path == "/"']) {
    assert.equal(reach('mesh-system', match).checks, true, match);
  }
});

test('checks and reports are separate', () => {
  assert.deepEqual(reach('shop', 'true', 'printed, instances: [line]'), { checks: false, reports: true });
});
