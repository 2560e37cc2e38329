import assert from 'node:assert/strict';
import { test } from 'node:test';
import { problemOf, read } from '../testing/parsed.ts';

const service = (addresses: string): string =>
  `apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: ns}\nspec: {clusterIPs: [${addresses}], ports: [{port: 80}]}`;

test('a Service has at most one virtual IP of each family', () => {
  assert.equal(read(service('10.96.0.1, "fd00:96::1"')).kind, 'Service');
  const { field, message } = problemOf(service('10.96.0.1, 10.96.0.2, 10.96.0.3'));
  assert.deepEqual([field, message], ['spec.clusterIPs', 'expected at most 2, got 3']);
});
