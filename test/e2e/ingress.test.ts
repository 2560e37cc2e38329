/**
 * Ingresses: a real Envoy with the label of the mesh's gateways serves those of the mesh's class, by host and path,
 * with a certificate from a Secret of its namespace.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { certificateSet, testRoot } from '../../src/agent/identity/testing/certificates.ts';
import { eventually as retry, startEcho } from '../harness/index.ts';
import { type Document, endpoints, pod, service } from './support/config.ts';
import { https } from './support/https-client.ts';
import { planMesh } from './support/mesh.ts';
import { type SecretsWorld, startSecretsWorld, tlsSecret } from './support/secrets-world.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call } from './support/traffic.ts';

const BACKEND = 7483;
const HTTP = 7088;
const HTTPS = 7446;

const owner = suiteOwner();
const address = planMesh();
const shared = lazy<SecretsWorld>();
const root = testRoot('end users');
const certificate = certificateSet(root, 'www.example');

const eventually = (check: () => Promise<void>) => retry(check, { timeoutMs: 30_000 });

before(async () => {
  await startEcho(owner, { name: 'a', address: address(21), port: BACKEND });
  await startEcho(owner, { name: 'b', address: address(22), port: BACKEND });
  const backend = (name: string, last: number) => [
    service(name, { namespace: 'shop', ports: [{ name: 'http', port: BACKEND }] }),
    endpoints(name, [address(last)], [{ name: 'http', port: BACKEND }], 'shop'),
  ];
  const ports = [
    { name: 'http', port: 80, targetPort: HTTP },
    { name: 'https', port: 443, targetPort: HTTPS },
  ];
  const front = [
    pod('gw', { namespace: 'edge', labels: { istio: 'ingressgateway' }, ip: address(1), serviceAccount: 'gw' }),
    service('front', { namespace: 'edge', ports }),
    endpoints(
      'front',
      { gw: address(1) },
      ports.map(({ name, targetPort: port }) => ({ name, port })),
      'edge',
    ),
    tlsSecret('www-cert', 'edge', certificate),
  ];
  const files = { backends: [...backend('a', 21), ...backend('b', 22)], front };
  const world = await startSecretsWorld(owner, files, ['www-cert'], { ORCH_INGRESS_NS: 'edge' });
  await world.startGateway({
    name: 'gw',
    namespace: 'edge',
    address: address(1),
    labels: { istio: 'ingressgateway' },
    serviceAccount: 'gw',
  });
  shared.set(world);
});

function ingress(name: string, spec: Document): Document {
  return { apiVersion: 'networking.k8s.io/v1', kind: 'Ingress', metadata: { name, namespace: 'shop' }, spec };
}

const path = (text: string, pathType: string, name: string) => ({
  path: text,
  pathType,
  backend: { service: { name, port: { name: 'http' } } },
});

/** Who answers a plain request, or its status where nobody does. */
async function answer(host: string, at: string): Promise<string | number> {
  const { status, by } = await call({ address: address(1), port: HTTP, host, path: at });
  return by ?? status;
}

test('hosts and paths of an Ingress lead to its Services, and changes are followed', async () => {
  const { config } = shared.get();
  const paths = [path('/', 'Prefix', 'a'), path('/b', 'Prefix', 'b'), path('/b/exact', 'Exact', 'a')];
  const rules = [
    { host: 'www.example', http: { paths } },
    { host: '*.wild.example', http: { paths: [path('/', 'Prefix', 'b')] } },
  ];
  const other = { ingressClassName: 'other', rules: [{ host: 'other.example', http: { paths } }] };
  await config.apply('ingress', ingress('web', { ingressClassName: 'mesh', rules }), ingress('other', other));
  await eventually(async () => {
    assert.equal(await answer('www.example', '/'), 'a');
    assert.equal(await answer('www.example', '/b'), 'b');
    assert.equal(await answer('www.example', '/b/more'), 'b');
    assert.equal(await answer('www.example', '/bmore'), 'a');
    assert.equal(await answer('www.example', '/b/exact'), 'a');
    assert.equal(await answer('x.wild.example', '/'), 'b');
    assert.equal(await answer('y.x.wild.example', '/'), 404);
    assert.equal(await answer('other.example', '/'), 404);
  });
  const defaultBackend = { service: { name: 'b', port: { number: BACKEND } } };
  await config.apply('ingress', ingress('web', { ingressClassName: 'mesh', defaultBackend }));
  await eventually(async () => {
    assert.equal(await answer('www.example', '/'), 'b');
    assert.equal(await answer('nobody.example', '/any'), 'b');
  });
});

test('a host with TLS has the certificate of its Secret', async () => {
  const tls = [{ hosts: ['www.example'], secretName: 'www-cert' }];
  const rules = [{ host: 'www.example', http: { paths: [path('/', 'Prefix', 'a')] } }];
  await shared.get().config.apply('ingress', ingress('web', { ingressClassName: 'mesh', tls, rules }));
  await eventually(async () => {
    const found = await https({ address: address(1), port: HTTPS, host: 'www.example', root: root.pem });
    assert.deepEqual([found.status, found.by], [200, 'a']);
    assert.equal(await answer('www.example', '/'), 'a');
  });
});
