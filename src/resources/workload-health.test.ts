import assert from 'node:assert/strict';
import { test } from 'node:test';
import { read } from './testing/parsed.ts';

function unhealthy(annotations: string, status: string): true | undefined {
  const head = 'apiVersion: networking.mesh.io/v1alpha3\nkind: WorkloadEntry\n';
  return read(
    `${head}metadata: {name: x, namespace: ns, annotations: ${annotations}}\nspec: {address: 1.2.3.4}\nstatus: ${status}`,
  ).meta.unhealthy;
}

const CHECKED = '{proxy.mesh.io/health-checks-enabled: "true"}';

test('a workload entry whose health is checked is unhealthy until the condition Healthy is True', () => {
  assert.equal(unhealthy(CHECKED, '{}'), true);
  assert.equal(unhealthy(CHECKED, '{conditions: [{type: Healthy, status: "False"}]}'), true);
  assert.equal(unhealthy(CHECKED, '{conditions: [{type: Other, status: "True"}]}'), true);
  assert.equal(unhealthy(CHECKED, '{conditions: [{type: Healthy, status: "True"}]}'), undefined);
  assert.equal(unhealthy('{proxy.istio.io/health-checks-enabled: "true"}', '{}'), true);
});

test('a workload entry whose health is not checked is healthy, whatever its status', () => {
  assert.equal(unhealthy('{}', '{conditions: [{type: Healthy, status: "False"}]}'), undefined);
  assert.equal(unhealthy('{proxy.mesh.io/health-checks-enabled: "false"}', '{}'), undefined);
});
