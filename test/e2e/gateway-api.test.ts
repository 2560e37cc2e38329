/** The Gateway API from a directory: a real Envoy that serves a Gateway and its routes. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { startEcho } from '../harness/index.ts';
import { type Document, endpoints, service } from './support/config.ts';
import { type MeshProxy, planMesh, startMesh, type TestMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll, tally } from './support/traffic.ts';

const BACKEND_PORT = 7480;
const PORT = 7080;

const owner = suiteOwner();
const address = planMesh();
const shared = lazy<TestMesh & { readonly gateway: MeshProxy }>();

const object = (kind: string, name: string, spec: Document): Document => ({
  apiVersion: 'gateway.networking.k8s.io/v1',
  kind,
  metadata: { name, namespace: 'default' },
  spec,
});

const CLASS = object('GatewayClass', 'meshd', { controllerName: 'mesh.io/gateway-controller' });
const GATEWAY = object('Gateway', 'public', {
  gatewayClassName: 'meshd',
  listeners: [
    { name: 'any', port: PORT, protocol: 'HTTP', hostname: '*.example' },
    { name: 'own', port: PORT, protocol: 'HTTP', hostname: 'own.example' },
  ],
});

const route = (name: string, sectionName: string, spec: Document): Document =>
  object('HTTPRoute', name, { parentRefs: [{ name: 'public', sectionName }], ...spec });

const to = (name: string, weight = 1): Document => ({ name, port: BACKEND_PORT, weight });

before(async () => {
  const backends = await Promise.all(
    ['a', 'b'].map((name, index) => startEcho(owner, { name, address: address(21 + index), port: BACKEND_PORT })),
  );
  const services = backends.flatMap((echo, index): Document[] => {
    const name = index === 0 ? 'a' : 'b';
    return [
      service(name, { ports: [{ name: 'http', port: BACKEND_PORT }] }),
      endpoints(name, [echo.address], [{ name: 'http', port: echo.port }]),
    ];
  });
  const started = await startMesh(owner, address, {
    files: { services, gateway: [CLASS, GATEWAY] },
    env: { CTL_ENABLED_SERVICE_APIS: 'true' },
  });
  const labels = { 'gateway.networking.k8s.io/gateway-name': 'public' };
  const gateway = await started.startProxy({
    name: 'gateway',
    type: 'router',
    mode: 'delta',
    address: address(10),
    labels,
  });
  shared.set({ ...started, gateway });
});

const at = (host: string, path = '/') => ({ address: shared.get().gateway.address, port: PORT, host, path });

const eventually = (check: () => Promise<void>) => eventuallyAll([shared.get().gateway], check);

test('matches of several routes decide in the order of the API', async () => {
  await shared.get().config.apply(
    'routes',
    route('a', 'any', { hostnames: ['www.example'], rules: [{ backendRefs: [to('a')] }] }),
    route('b', 'any', {
      hostnames: ['www.example'],
      rules: [{ matches: [{ path: { type: 'PathPrefix', value: '/shop' } }], backendRefs: [to('b')] }],
    }),
  );
  await eventually(async () => {
    assert.equal((await call(at('www.example', '/shop/cart'))).by, 'b');
    assert.equal((await call(at('www.example', '/shopping'))).by, 'a');
    assert.equal((await call(at('other.example'))).status, 404);
  });
});

test('a listener has its hostname to itself', async () => {
  await shared
    .get()
    .config.apply(
      'routes',
      route('a', 'any', { hostnames: ['*.example', 'own.example'], rules: [{ backendRefs: [to('a')] }] }),
    );
  await eventually(async () => {
    // Not served before.
    assert.equal((await call(at('new.example'))).by, 'a');
    assert.equal((await call(at('own.example'))).status, 404);
  });
});

test('the share of a backend that does not exist is answered with 500', async () => {
  await shared.get().config.apply('routes', route('a', 'own', { rules: [{ backendRefs: [to('a'), to('missing')] }] }));
  await eventually(async () => {
    const answers = await tally(at('own.example'), 40);
    assert.deepEqual(Object.keys(answers).sort(), ['500', 'a']);
  });
});
