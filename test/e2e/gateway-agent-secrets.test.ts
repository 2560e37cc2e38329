/**
 * Certificates of a gateway by `credentialName` that its agent reads itself (ENABLE_INGRESS_GATEWAY_SDS), with a real
 * Envoy. `ctl-discovery` reads from a directory and has none of the Secrets.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { certificateSet, testRoot } from '../../src/agent/identity/testing/certificates.ts';
import { ScriptedApiServer } from '../../src/kubernetes/testing/scripted-api-server.ts';
import { eventually, netnsUnavailable, startEcho, tempDir } from '../harness/index.ts';
import { endpoints, pod, resource, service } from './support/config.ts';
import { https } from './support/https-client.ts';
import { planMesh } from './support/mesh.ts';
import { startSecretsWorld } from './support/secrets-world.ts';

const PORT = 7443;
const BACKEND_PORT = 7480;
const SECRETS = '/api/v1/secrets';

test('a gateway serves the certificate that its agent reads from a scripted API server on loopback, and rotates it', {
  skip: (await netnsUnavailable()) ?? false,
}, async (t) => {
  const address = planMesh();
  const [root, clients] = [testRoot('end users'), testRoot('clients')];
  const [first, second] = [certificateSet(root, 'a.example'), certificateSet(root, 'a.example')];
  const client = certificateSet(clients, 'client.example');
  const [api, account] = [await ScriptedApiServer.start(), await tempDir(t)];
  t.after(() => api.stop());
  api.serve(SECRETS);
  const files = { token: 'own', 'ca.crt': api.ca, namespace: 'edge' };
  for (const [name, text] of Object.entries(files)) await writeFile(join(account, name), text);
  const secret = (name: string, entries: Readonly<Record<string, string>>) => {
    const data = Object.fromEntries(
      Object.entries(entries).map(([entry, text]) => [entry, Buffer.from(text).toString('base64')]),
    );
    api.set(SECRETS, { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: 'edge' }, type: 'Opaque', data });
  };
  const server = (name: string, tls: object) => ({
    port: { number: PORT, name, protocol: 'HTTPS' },
    bind: address(1),
    hosts: [`${name}.example`],
    tls,
  });
  await startEcho(t, { name: 'a', address: address(21), port: BACKEND_PORT });
  const servers = [
    server('a', { mode: 'SIMPLE', credentialName: 'a-cert' }),
    server('mutual', { mode: 'MUTUAL', credentialName: 'mutual-cert' }),
    server('foreign', { mode: 'SIMPLE', credentialName: 'shop/a-cert' }),
  ];
  const destination = { host: 'a.default.svc.cluster.local' };
  const documents = {
    mesh: [
      service('a', { ports: [{ name: 'http', port: BACKEND_PORT }] }),
      endpoints('a', [address(21)], [{ name: 'http', port: BACKEND_PORT }]),
      pod('gw', { namespace: 'edge', labels: { app: 'edge' }, ip: address(1), serviceAccount: 'gw' }),
      resource('Gateway', 'front', { selector: { app: 'edge' }, servers }, 'edge'),
      resource(
        'VirtualService',
        'all',
        { hosts: ['*'], gateways: ['edge/front'], http: [{ route: [{ destination }] }] },
        'edge',
      ),
    ],
  };
  secret('a-cert', { cert: first.leaf, key: first.key });
  const world = await startSecretsWorld(t, documents, []);
  const agent = await world.startGateway({
    name: 'gw',
    namespace: 'edge',
    address: address(1),
    labels: { app: 'edge' },
    serviceAccount: 'gw',
    agent: {
      serviceAccount: account,
      env: {
        ENABLE_INGRESS_GATEWAY_SDS: 'true',
        KUBERNETES_SERVICE_HOST: 'localhost',
        KUBERNETES_SERVICE_PORT: String(api.port),
      },
    },
  });
  const at = (host: string) => ({ address: address(1), port: PORT, host, root: root.pem });
  const served = async (certificate: string) => {
    const answer = await https(at('a.example'));
    assert.deepEqual([answer.status, answer.by, answer.certificate], [200, 'a', certificate]);
  };
  await eventually(() => served(first.leaf), { timeoutMs: 30_000 });
  // Its Secret is missing: only its connections are closed.
  await assert.rejects(https({ ...at('mutual.example'), client }));
  const mutual = certificateSet(root, 'mutual.example');
  secret('mutual-cert', { cert: mutual.leaf, key: mutual.key, cacert: clients.pem });
  await eventually(async () => assert.equal((await https({ ...at('mutual.example'), client })).status, 200));
  await assert.rejects(https(at('mutual.example')));

  secret('a-cert', { cert: second.leaf, key: second.key });
  await eventually(() => served(second.leaf));
  api.remove(SECRETS, { name: 'a-cert', namespace: 'edge' });
  await eventually(() => assert.match(agent.output(), /no Secret edge\/a-cert; the last good version stays in use/));
  await served(second.leaf);

  await assert.rejects(https(at('foreign.example')));
  assert.ok(api.requests.every(({ path }) => path === '/api/v1/namespaces/edge/secrets'));
  // ctl-discovery has the names and not one of the keys.
  const { body } = await world.discovery().http('/debug/push_status');
  assert.match(body, /credential \\"shop\/a-cert\\" is denied/);
  assert.doesNotMatch(body, /waits for/);
});
