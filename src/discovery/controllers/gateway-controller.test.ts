/** The controller of the Gateway API as the program runs it: its name, and what it follows. */

import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import { TokenBucket } from '../../core/fairness/token-bucket.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { GATEWAYS, startGatewayServer } from '../../gateway-controller/testing/gateway-server.ts';
import { KubernetesClient } from '../../kubernetes/index.ts';
import { defaultMeshConfig, keyOf, type MeshConfig } from '../../resources/index.ts';
import { type DiscoverySettings, defaultDiscoverySettings } from '../../settings/index.ts';
import { documentsOf } from '../../translators/gateway-api/testing/translated.ts';
import { createConnection } from '../clusters/cluster.ts';
import type { Leadership } from '../clusters/leadership.ts';
import { createTranslation } from '../pipeline/translation.ts';
import { runGatewayController } from './gateway-controller.ts';

const cleanup: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
});

const gatewayOf = (className: string) => `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: edge}
spec: {gatewayClassName: ${className}, listeners: [{name: http, port: 80, protocol: HTTP}]}
`;
const classOf = (name: string, controllerName: string) => `---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: ${name}}
spec: {controllerName: ${controllerName}}
`;

const meshWith = (discoveryAddress: string): MeshConfig => {
  const mesh = defaultMeshConfig();
  return { ...mesh, defaultConfig: { ...mesh.defaultConfig, discoveryAddress } };
};

/** A replica that leads, and the Deployment of the Gateway in the API server. */
async function startLeader(className: string, more: Partial<DiscoverySettings> = {}) {
  const { server } = await startGatewayServer();
  cleanup.push(() => server.stop());
  server.set(GATEWAYS, {
    metadata: { name: 'web', namespace: 'edge' },
    spec: { gatewayClassName: className, listeners: [{ name: 'http', port: 80, protocol: 'HTTP' }] },
  });
  const settings = defaultDiscoverySettings({ serviceApis: true, ...more });
  const connection = createConnection(server.access());
  cleanup.push(() => connection.close());
  const leadership: Pick<Leadership, 'run'> = {
    run(_, lead) {
      const ending = new AbortController();
      const led = lead(ending.signal);
      const close = async () => {
        ending.abort();
        await led;
      };
      return { isLeading: true, close };
    },
  };
  const translation = createTranslation(settings, () => undefined);
  const documents = [
    gatewayOf(className),
    classOf('meshd', 'mesh.io/gateway-controller'),
    classOf('b', 'example.com/b'),
  ];
  const changes = documentsOf(documents.join('')).map((after) => ({ key: keyOf(after), before: undefined, after }));
  translation.apply({ changes, eventTime: 0 });
  const cluster = { client: new KubernetesClient(connection), leadership: leadership as Leadership };
  const task = runGatewayController({
    settings,
    cluster,
    translation,
    mesh: meshWith('first.example:15012'),
    statusBudget: new TokenBucket({ rate: 100, burst: 500, now: () => performance.now() }),
    version: () => 1,
  });
  assert.ok(task);
  cleanup.push(() => task.close());
  const deployment = () => server.find('/apis/apps/v1/deployments', 'web-meshd', 'edge');
  const has = (text: string) =>
    waitUntil(() => JSON.stringify(deployment() ?? {}).includes(text), { what: () => text });
  return { task, has, deployment };
}

test('Gateways get the address of the mesh configuration in force, even when it changes', async () => {
  const { task, has } = await startLeader('meshd');
  await has('first.example:15012');
  task.configure(meshWith('second.example:15012'));
  await has('second.example:15012');
});

test('a control plane with a name of its own serves the classes of that name, and marks the objects with it', async () => {
  const { has, deployment } = await startLeader('b', { gatewayControllerName: 'example.com/b' });
  await has('first.example:15012');
  assert.match(JSON.stringify(deployment()?.metadata), /"gateway.mesh.io\/managed":"example.com-b"/);
});

test('a name that cannot be that of a controller is refused', () => {
  for (const gatewayControllerName of [
    'b',
    'example.com/',
    'Example.com/b',
    'example.com/b/c',
    `a.b/${'c'.repeat(60)}`,
  ]) {
    const create = () => createTranslation(defaultDiscoverySettings({ gatewayControllerName }), () => undefined);
    assert.throws(create, (error) => error instanceof CtlError && error.oneLine().includes('CONTROLLER_NAME'));
  }
});
