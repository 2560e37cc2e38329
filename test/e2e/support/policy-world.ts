/** A mesh whose sidecars and gateways ask the policy component, and calls through them. */
import assert from 'node:assert/strict';
import { afterEach, before } from 'node:test';
import { eventually, type Response, request, startEcho, startTcpEcho } from '../../harness/index.ts';
import { type Document, endpoints, pod, resource, service } from './config.ts';
import { type ProxyOptions, planMesh, sidecar, startMesh, type TestMesh } from './mesh.ts';
import { policyDocument as document } from './policy-documents.ts';
import { lazy, suiteOwner } from './suite.ts';

export const HTTP = 7086;
export const TCP = 7087;
export const SHOP = 'shop';
export const ROOT = 'mesh-system';
const address = planMesh();
export const AT = { web: address(20), one: address(10), two: address(11), other: address(30) } as const;
export type Proxy = keyof typeof AT;
export const REDIS_AT = address(40);
/** Far longer than an edit takes to arrive. */
export const PATIENCE_MS = 30_000;

export const PROXIES = {
  web: { namespace: SHOP, mode: 'delta' },
  other: { namespace: 'other', mode: 'sotw' },
  one: { namespace: SHOP, type: 'router', mode: 'delta' },
  two: { namespace: SHOP, type: 'router', mode: 'sotw' },
} as const satisfies Readonly<Record<Proxy, Omit<ProxyOptions, 'name' | 'address'>>>;

export const owner = suiteOwner();
export const shared = lazy<TestMesh>();

/**
 * Starts the mesh with these proxies before the tests of a file; each test begins without documents of the component.
 */
export function usePolicyWorld(...proxies: readonly Proxy[]): void {
  before(() => start(proxies));
  afterEach(() => clean(proxies));
}

async function start(proxies: readonly Proxy[]): Promise<void> {
  const echo = await startEcho(owner, { name: 'app' });
  const bytes = await startTcpEcho(owner, { name: 'bytes' });
  const ports = [
    { name: 'http', port: HTTP },
    { name: 'tcp', port: TCP },
  ];
  const mesh = await startMesh(owner, address, {
    files: {
      app: [
        service('app', { namespace: SHOP, ports: [{ name: 'http', port: HTTP }] }),
        endpoints('app', [echo.address], [{ name: 'http', port: echo.port }], SHOP),
      ],
      sidecars: (['web', 'other'] as const).flatMap((name) => {
        const namespace = name === 'web' ? SHOP : 'other';
        return [
          pod(`${name}-7d9-x`, {
            namespace,
            ip: AT[name],
            labels: { app: name, version: 'v1', 'pod-template-hash': '7d9' },
            serviceAccount: name,
          }),
          service(name, { namespace, ports, selector: { app: name } }),
          endpoints(name, { [`${name}-7d9-x`]: AT[name] }, ports, namespace),
          sidecar(name, {
            namespace,
            address: AT[name],
            ingress: [
              { number: HTTP, protocol: 'HTTP', to: `${echo.address}:${echo.port}` },
              { number: TCP, protocol: 'TCP', to: `${bytes.address}:${bytes.port}` },
            ],
          }),
        ];
      }),
      gateways: (['one', 'two'] as const).flatMap((name) => [
        resource(
          'Gateway',
          name,
          {
            selector: { app: name },
            servers: [{ hosts: ['*'], port: { number: HTTP, name: 'http', protocol: 'HTTP' }, bind: AT[name] }],
          },
          SHOP,
        ),
        resource(
          'VirtualService',
          name,
          {
            hosts: ['*'],
            gateways: [name],
            http: [{ route: [{ destination: { host: `app.${SHOP}.svc.cluster.local` } }] }],
          },
          SHOP,
        ),
      ]),
    },
  });
  await Promise.all(proxies.map((name) => mesh.startProxy({ name, address: AT[name], ...PROXIES[name] })));
  shared.set(mesh);
}

async function clean(proxies: readonly Proxy[]): Promise<void> {
  await shared
    .get()
    .config.remove('policy')
    .catch(() => undefined);
  // Otherwise the next rule may seem to have arrived too early.
  await settled(Object.fromEntries(proxies.map((proxy) => [proxy, ['app']])) as never);
}

export interface Call {
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export function send(proxy: Proxy, { path = '/', headers = {} }: Call = {}): Promise<Response> {
  return request({ address: AT[proxy], port: HTTP, path, headers });
}

/** `app` when the application answered, otherwise status and body. */
export async function outcome(proxy: Proxy, call?: Call): Promise<string> {
  const { status, headers, body } = await send(proxy, call);
  return headers['x-echo'] === 'app' ? 'app' : `${status} ${body}`.trim();
}

/** Waits until one request to each of these proxies has the outcome. */
export async function settled(expected: Readonly<Partial<Record<Proxy, readonly [string, Call?]>>>): Promise<void> {
  await eventually(
    async () => {
      for (const [proxy, [text, call]] of Object.entries(expected) as [Proxy, [string, Call?]][])
        assert.equal(await outcome(proxy, call), text, proxy);
    },
    { timeoutMs: PATIENCE_MS },
  );
}

export const apply = (...documents: readonly Document[]): Promise<void> =>
  shared.get().config.apply('policy', ...documents);
export const rule = (name: string, spec: Document, namespace = SHOP): Document =>
  document('rule', name, spec, namespace);
export const action = (handler: string, ...instances: readonly string[]) => ({ actions: [{ handler, instances }] });
export const DENY = [
  document('handler', 'deny', {
    compiledAdapter: 'denier',
    params: { status: { code: 7, message: 'not today' } },
  }),
  document('instance', 'any', { compiledTemplate: 'checknothing' }),
];
export const DENIED = '403 PERMISSION_DENIED:deny.shop:not today';
