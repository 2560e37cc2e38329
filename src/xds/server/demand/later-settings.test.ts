/** Which clusters are generated later follows the settings of the mesh, also where namespaces have the same services. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inline, Mesh, service, sidecar } from '../../../push/testing/mesh.ts';
import { meshConfig } from '../../../resources/schema/mesh-config.ts';

const clusterOf = (name: string): string => `outbound|80||${name}.shop.svc.cluster.local`;

async function connected(mesh: Mesh, address: string, namespace: string) {
  const node = { ...sidecar(address, namespace), discoversVirtualHosts: true };
  const { session } = mesh.connect({ ...node, options: { configuration: 'on-demand' } });
  await session.ready;
  return session;
}

test('a view that is new after the settings begins with the clusters that these need', async () => {
  const services = ['s0', 's1', 's2'].map((name) => service('shop', name));
  const mesh = new Mesh(inline, services, { laterClusters: { above: 1 } });
  const before = await connected(mesh, '10.1.0.1', 'shop');
  assert.equal(before.laterClusters?.has(clusterOf('s1')), true);
  const provider = { name: 'authorizer', envoyExtAuthzHttp: { service: 's1.shop.svc.cluster.local', port: 80 } };
  const settings = meshConfig.parse({ extensionProviders: [provider] });
  mesh.engine.publish(mesh.model.apply({ changes: [], eventTime: performance.now(), mesh: settings }));
  const after = await connected(mesh, '10.1.0.2', 'other');
  const isLater = (name: string) => after.laterClusters?.has(clusterOf(name));
  assert.deepEqual([isLater('s1'), isLater('s2')], [false, true]);
});
