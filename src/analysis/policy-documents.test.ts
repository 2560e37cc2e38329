import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findingsIn } from './testing/analyzed.ts';

test('documents of the policy component are checked together', () => {
  const found = findingsIn(`
apiVersion: config.mesh.io/v1alpha2
kind: instance
metadata: { name: entry, namespace: shop }
spec: { compiledTemplate: listentry, params: { value: request.size } }
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: { name: listed, namespace: shop }
spec:
  match: source.nam == "a"
  actions: [{ handler: list, instances: [entry] }]
`);
  assert.deepEqual(
    found
      .filter(({ code, message }) => code === 'IST0133' && message.startsWith('spec.'))
      .map(({ resource, origin, message }) => [`${resource.kind}/${resource.name}`, origin.line, message]),
    [
      ['instance/entry', 1, 'spec.params.value: expected an expression of type STRING or IP_ADDRESS, got INT64'],
      ['rule/listed', 2, 'spec.match: column 1: unknown attribute "source.nam", did you mean source.name?'],
    ],
  );
});

test('what a rule tells of another namespace is for those who see that', () => {
  const rule = (name: string, handler: string) => `
apiVersion: config.mesh.io/v1alpha2
kind: rule
metadata: { name: ${name}, namespace: a }
spec: { actions: [{ handler: ${handler}, instances: [entry] }] }
---`;
  const found = findingsIn(`${rule('elsewhere', 'list.b')}${rule('own', 'list')}`);
  const of = (name: string) => found.filter(({ resource }) => resource.name === name && resource.kind === 'rule');
  assert.equal(of('elsewhere').length, 2);
  for (const each of of('elsewhere')) assert.deepEqual(each.reveals, ['b'], each.message);
  assert.equal(of('own').length, 2);
  for (const each of of('own')) assert.equal(each.reveals, undefined, each.message);
});
