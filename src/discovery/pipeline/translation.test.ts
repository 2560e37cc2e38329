/** Which documents of other APIs are of the mesh. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AnyResource, keyOf, parseResource, type Resource, type ResourceKey } from '../../resources/index.ts';
import { defaultDiscoverySettings } from '../../settings/index.ts';
import { createTranslation } from './translation.ts';

function documentOf(kind: string, name: string, spec: object): AnyResource {
  const metadata = { name, ...(kind === 'Gateway' && { namespace: 'edge' }) };
  const raw = { apiVersion: 'gateway.networking.k8s.io/v1', kind, metadata, spec };
  const parsed = parseResource(raw, { source: 'test' }, () => undefined);
  assert.ok('resource' in parsed);
  return parsed.resource;
}

test('a Gateway of the Gateway API is of the mesh while its class is of its controller', () => {
  const store = new Map<ResourceKey, AnyResource>();
  const { servesGateway } = createTranslation(defaultDiscoverySettings({ serviceApis: true }), (key) => store.get(key));
  const listeners = [{ name: 'a', port: 80, protocol: 'HTTP' }];
  const gateway = documentOf('Gateway', 'public', { gatewayClassName: 'edge', listeners });
  assert.ok(gateway.kind === 'KubernetesGateway');
  const answers = ['example.com/other', 'mesh.io/gateway-controller'].map((controllerName) => {
    const gatewayClass = documentOf('GatewayClass', 'edge', { controllerName });
    store.set(keyOf(gatewayClass), gatewayClass);
    return servesGateway(gateway as Resource<'KubernetesGateway'>);
  });
  store.clear();
  assert.deepEqual([...answers, servesGateway(gateway as Resource<'KubernetesGateway'>)], [false, true, false]);
});
