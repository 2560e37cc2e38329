/**
 * AuthorizationPolicies that nobody should write: empty strings, stars everywhere, impossible ports and addresses,
 * invalid names. Whether each is refused or in force, Envoy accepts the generated configuration, and a valid policy
 * beside them takes effect.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { eventually, request, startEcho } from '../harness/index.ts';
import { type Document, endpoints, pod, resource, service } from './support/config.ts';
import { type MeshProxy, planMesh, sidecar, startMesh, syncStatus, type TestMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const HTTP = 7091;
const BYTES = 7092;
const address = planMesh();
const SIDECAR = address(20);
const GATEWAY = address(10);

const owner = suiteOwner();
const shared = lazy<TestMesh & { readonly proxies: readonly MeshProxy[] }>();

const LONG = 'x'.repeat(5_000);
const TEXTS: readonly string[] = [
  '',
  '*',
  '**',
  '***',
  '*x*',
  'x*y*z',
  ' ',
  '\t',
  '\0',
  'a\nb',
  'a\r\nb',
  'é',
  '\u{1f600}',
  '\ud800',
  '(',
  '[a',
  'a{1001}',
  '(?i)x',
  '\\',
  '\\E',
  '\\Qx',
  '%',
  '%zz',
  '%REQ(x)%',
  '$',
  '^$',
  '/',
  '//',
  '*/',
  '/*',
  '.',
  '..',
  ':',
  ':80',
  '*:80',
  '[::1]:80',
  '-1',
  '0',
  '65536',
  '080',
  '1e3',
  '1.2.3.4/33',
  '1.2.3.4/0',
  '1.2.3',
  '01.02.03.04',
  '::/129',
  '::ffff:1.2.3.4/120',
  'fe80::1%eth0',
  '::/0',
  'spiffe://cluster.local/ns/a/sa/b',
  'cluster.local/ns/a',
  '*/ns/*',
  '/{*}/x',
  '/{**}',
  '/a/{*',
  LONG,
  `${LONG}*`,
  `*${LONG}`,
];

const SOURCE_FIELDS = [
  'principals',
  'requestPrincipals',
  'namespaces',
  'serviceAccounts',
  'ipBlocks',
  'remoteIpBlocks',
];
const OPERATION_FIELDS = ['hosts', 'ports', 'methods', 'paths'];
const KEYS: readonly string[] = [
  'source.ip',
  'remote.ip',
  'source.namespace',
  'source.serviceAccount',
  'source.principal',
  'request.auth.principal',
  'request.auth.audiences',
  'request.auth.presenter',
  'request.auth.claims[a]',
  'request.auth.claims[a][b][c]',
  'destination.ip',
  'destination.port',
  'connection.sni',
  'request.headers[x]',
];
const ODD_KEYS: readonly string[] = [
  'request.headers[:path]',
  'request.headers[:method]',
  'request.headers[:authority]',
  'request.headers[:unknown]',
  'request.headers[Host]',
  'request.headers[]',
  'request.headers[ ]',
  'request.headers[a b]',
  'request.headers[a:b]',
  'request.headers[é]',
  'request.headers[a\nb]',
  'request.headers[a]b]',
  `request.headers[${LONG}]`,
  'request.headers',
  'request.auth.claims',
  'request.auth.claims[]',
  'request.auth.claims[a]b]',
  'request.auth.claims[][a]',
  'request.auth.claims[a.b/c]',
  `request.auth.claims${'[a]'.repeat(200)}`,
  'source.user',
  'destination.user',
  'experimental.envoy.filters.network.mysql_proxy[db.table]',
  'experimental.envoy.filters.x',
  'request.regex.headers[x]',
  '',
];

const not = (field: string) => `not${field.charAt(0).toUpperCase()}${field.slice(1)}`;

function rules(text: string): Document[] {
  const both = (field: string) => [{ [field]: [text] }, { [not(field)]: [text] }];
  return [
    ...SOURCE_FIELDS.flatMap(both).map((source) => ({ from: [{ source }] })),
    ...OPERATION_FIELDS.flatMap(both).map((operation) => ({ to: [{ operation }] })),
    ...KEYS.flatMap((key) => [
      { key, values: [text] },
      { key, notValues: [text] },
    ]).map((each) => ({ when: [each] })),
  ];
}

/** Each rule is a separate policy, so that a refused one does not affect the others. */
function policies(all: readonly Document[], spec: Document): Document[] {
  return all.map((rule, index) =>
    resource('AuthorizationPolicy', `odd-${String(spec.action).toLowerCase()}-${index}`, { ...spec, rules: [rule] }),
  );
}

const ACTIONS: readonly Document[] = [{ action: 'ALLOW' }, { action: 'DENY' }];

before(async () => {
  const echo = await startEcho(owner, { name: 'app' });
  const to = `127.0.0.1:${echo.port}`;
  const port = (number: number, protocol: string) => ({ number, name: protocol.toLowerCase(), protocol });
  const mesh = await startMesh(owner, address, {
    files: {
      app: [
        service('app', { ports: [{ name: 'http', port: HTTP }] }),
        endpoints('app', ['127.0.0.1'], [{ name: 'http', port: echo.port }]),
      ],
      sidecar: [
        pod('sidecar', { ip: SIDECAR, labels: { app: 'sidecar' } }),
        sidecar('sidecar', {
          address: SIDECAR,
          ingress: [
            { number: HTTP, protocol: 'HTTP', to },
            { number: BYTES, protocol: 'TCP', to },
          ],
        }),
      ],
      gateway: [
        resource('Gateway', 'gateway', {
          selector: { app: 'gateway' },
          servers: [
            { hosts: ['*'], port: port(HTTP, 'HTTP'), bind: GATEWAY },
            { hosts: ['*'], port: port(BYTES, 'TCP'), bind: GATEWAY },
          ],
        }),
        resource('VirtualService', 'all', {
          hosts: ['*'],
          gateways: ['gateway'],
          http: [{ route: [{ destination: { host: 'app.default.svc.cluster.local' } }] }],
          tcp: [{ match: [{ port: BYTES }], route: [{ destination: { host: 'app.default.svc.cluster.local' } }] }],
        }),
      ],
    },
  });
  const proxies = [
    await mesh.startProxy({ name: 'sidecar', address: SIDECAR, mode: 'delta' }),
    await mesh.startProxy({ name: 'gateway', type: 'router', address: GATEWAY, mode: 'sotw' }),
  ];
  shared.set({ ...mesh, proxies });
});

let rounds = 0;

/**
 * Applies policies together with a valid one, and checks that the valid one takes effect everywhere and that nothing
 * was rejected.
 */
async function harmless(odd: readonly Document[]): Promise<void> {
  const { config, discovery, proxies } = shared.get();
  const path = `/round-${++rounds}`;
  const good = resource('AuthorizationPolicy', 'good', {
    action: 'DENY',
    rules: [{ to: [{ operation: { paths: [path] } }] }],
  });
  const all = resource('AuthorizationPolicy', 'all', {
    action: 'ALLOW',
    rules: [{ to: [{ operation: { paths: ['/*'] } }] }],
  });
  await config.apply('policies', good, all, ...odd);
  await eventually(
    async () => {
      for (const { address: at } of proxies) {
        const { status, body } = await request({ address: at, port: HTTP, path });
        assert.deepEqual([status, body], [403, 'RBAC: access denied']);
      }
    },
    { timeoutMs: 30_000, intervalMs: 100 },
  );
  for (const proxy of proxies) {
    const stats = await proxy.stats('update_rejected|listener_create_failure');
    assert.deepEqual(
      Object.entries(stats).filter(([, value]) => value !== 0),
      [],
      `${proxy.name}: ${proxy.output().slice(-2_000)}`,
    );
  }
  assert.doesNotMatch(JSON.stringify(await syncStatus(discovery())), /NACK|REJECTED|error/i);
  await config.apply('policies');
  // Removed before the next ones are applied.
  await eventually(
    async () => {
      for (const { address: at } of proxies) {
        assert.equal((await request({ address: at, port: HTTP, path })).status, 200);
      }
    },
    { timeoutMs: 30_000, intervalMs: 100 },
  );
}

describe('odd policies', () => {
  for (const spec of ACTIONS) {
    test(`${String(spec.action)}: odd strings in every field`, async () => {
      await harmless(policies(TEXTS.flatMap(rules), spec));
    });
    test(`${String(spec.action)}: odd attributes`, async () => {
      const odd = ODD_KEYS.flatMap((key) => ['x', '*', 'x*'].map((value) => ({ when: [{ key, values: [value] }] })));
      await harmless(policies(odd, spec));
    });
    test(`${String(spec.action)}: much of everything`, async () => {
      const many = Array.from({ length: 300 }, (_, index) => index);
      const operation = { paths: many.map((n) => `/p${n}/*`), hosts: many.map((n) => `*.h${n}`) };
      const source = {
        principals: many.map((n) => `cluster.local/ns/n${n}/sa/*`),
        notIpBlocks: many.map((n) => `10.${n % 256}.${n >> 8}.0/24`),
      };
      const when = many.slice(0, 50).map((n) => ({ key: `request.headers[x-${n}]`, values: ['*', 'a*', 'b'] }));
      await harmless(policies([{ from: [{ source }], to: [{ operation }], when }], spec));
    });
  }

  test('CUSTOM: odd names of authorizers', async () => {
    const names = ['x', 'a b', 'é', '\0', 'a/b', '%', LONG, ''];
    const odd = names.map((name, index) =>
      resource('AuthorizationPolicy', `custom-${index}`, {
        action: 'CUSTOM',
        provider: { name },
        rules: [{ to: [{ operation: { paths: [`/custom-${index}`] } }] }],
      }),
    );
    await harmless(odd);
  });

  test('a policy that becomes wrong stays in force as it was', async () => {
    const { config, proxies } = shared.get();
    const guard = (paths: unknown) =>
      resource('AuthorizationPolicy', 'guard', { action: 'DENY', rules: [{ to: [{ operation: { paths } }] }] });
    const marker = (path: string) =>
      resource('AuthorizationPolicy', 'marker', {
        action: 'DENY',
        rules: [{ to: [{ operation: { paths: [path] } }] }],
      });
    const denied = (path: string) =>
      eventually(
        async () => {
          for (const { address: at } of proxies) {
            assert.equal((await request({ address: at, port: HTTP, path })).status, 403);
          }
        },
        { timeoutMs: 30_000 },
      );
    await config.apply('policies', guard(['/admin']), marker('/first'));
    await denied('/admin');
    for (const [index, wrong] of ['/admin', [7], [''], { '/admin': true }].entries()) {
      await config.apply('policies', guard(wrong), marker(`/wrong-${index}`));
      await denied(`/wrong-${index}`);
      await denied('/admin');
    }
  });
});
