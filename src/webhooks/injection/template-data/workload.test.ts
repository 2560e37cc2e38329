import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createInjector } from '../index.ts';
import { recordOf, recordsOf } from '../pod-shape.ts';
import { injected, SETTINGS, webPod } from '../testing/settings.ts';

test('the workload is that of the owner, of what owns it, of a label, or the Pod itself', () => {
  const injector = createInjector(SETTINGS);
  const of = (metadata: object) => {
    const env = recordsOf(
      recordOf(recordsOf(recordOf(injected(injector, webPod({ metadata })).spec).initContainers)[1]).env,
    );
    const value = (name: string) => env.find((each) => each.name === name)?.value;
    return [value('MESH_META_WORKLOAD_NAME'), value('MESH_META_OWNER')];
  };
  const owner = (kind: string, name: string, apiVersion = 'apps/v1') => ({
    ownerReferences: [{ apiVersion, kind, name, controller: true }],
  });
  const path = (rest: string) => `kubernetes://apis/${rest}`;
  assert.deepEqual(of({ ...owner('StatefulSet', 'db'), labels: {} }), [
    'db',
    path('apps/v1/namespaces/shop/statefulsets/db'),
  ]);
  const rollout = { ...owner('ReplicaSet', 'web-77f'), labels: { 'rollouts-pod-template-hash': '77f' } };
  assert.deepEqual(of(rollout), ['web', path('argoproj.io/v1alpha1/namespaces/shop/rollouts/web')]);
  const config = { ...owner('ReplicationController', 'web-3', 'v1'), labels: { deploymentconfig: 'web' } };
  assert.deepEqual(of(config), ['web', path('apps.openshift.io/v1/namespaces/shop/deploymentconfigs/web')]);
  const bare = { name: 'one', generateName: undefined, ownerReferences: [], labels: {} };
  assert.deepEqual(of(bare), ['one', path('v1/namespaces/shop/pods/one')]);
  assert.deepEqual(of({ generateName: 'one-', ownerReferences: [], labels: {} }), ['one', undefined]);
  const named = { ...bare, labels: { 'service.istio.io/workload-name': 'shop-front' } };
  assert.deepEqual(of(named), ['shop-front', path('v1/namespaces/shop/pods/one')]);
});
