/**
 * AuthorizationPolicy with action CUSTOM: an external authorizer of the mesh configuration decides about requests that
 * a rule matches. It may allow, deny with a response of its own, be down, slow or unknown. If it cannot be asked,
 * requests are denied unless the mesh configuration says otherwise.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { stringify } from 'yaml';
import {
  type EchoReply,
  eventually,
  type Response,
  request,
  startEcho,
  startTcpEcho,
  tempDir,
} from '../harness/index.ts';
import { ExpectationTable } from './support/authorization-table.ts';
import { type Document, endpoints, pod, resource, service } from './support/config.ts';
import { type ExtAuthzServer, startExtAuthzServer } from './support/ext-authz-server.ts';
import { planMesh, sidecar, startMesh, type TestMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { greeting } from './support/traffic.ts';

const HTTP = 7086;
const TCP = 7087;
const AUTHORIZER_PORT = 9191;
const address = planMesh();
const SERVERS = { sidecar: address(20), gateway: address(10) } as const;
/** Far longer than an edit takes to arrive. */
const PATIENCE_MS = 30_000;
type Server = keyof typeof SERVERS;
const BOTH = Object.keys(SERVERS) as Server[];

interface World extends TestMesh {
  readonly authorizer: ExtAuthzServer;
  /** Writes the mesh configuration with these providers. */
  setProviders(providers: readonly Document[]): Promise<void>;
}

const owner = suiteOwner();
const shared = lazy<World>();
const table = new ExpectationTable();

const AUTHORIZER = { service: 'authorizer.default.svc.cluster.local', port: AUTHORIZER_PORT };
const PROVIDERS = [
  {
    name: 'strict',
    envoyExtAuthzHttp: {
      ...AUTHORIZER,
      timeout: '1s',
      pathPrefix: '/check',
      includeRequestHeadersInCheck: ['x-verdict', 'x-told*'],
      includeAdditionalHeadersInCheck: { 'x-mesh': 'meshd' },
      headersToUpstreamOnAllow: ['x-user'],
      headersToDownstreamOnAllow: ['x-greeting'],
      headersToDownstreamOnDeny: ['x-reason'],
    },
  },
  {
    name: 'open',
    envoyExtAuthzHttp: { ...AUTHORIZER, timeout: '1s', includeRequestHeadersInCheck: ['x-verdict'], failOpen: true },
  },
  {
    name: 'says-503',
    envoyExtAuthzHttp: {
      ...AUTHORIZER,
      timeout: '1s',
      includeRequestHeadersInCheck: ['x-verdict'],
      statusOnError: '503',
    },
  },
  { name: 'nowhere', envoyExtAuthzHttp: { service: 'nobody.default.svc.cluster.local', port: 1 } },
];

/** Policies on both servers. */
function policies(action: string, name: string, rules: readonly Document[], more: Document = {}): Document[] {
  return BOTH.map((app) =>
    resource('AuthorizationPolicy', `${name}-${app}`, { selector: { matchLabels: { app } }, action, rules, ...more }),
  );
}
const ask = (provider: string, rules: readonly Document[]) =>
  policies('CUSTOM', `ask-${provider}`, rules, { provider: { name: provider } });
const at = (...paths: readonly string[]) => [{ to: [{ operation: { paths } }] }];

before(async () => {
  const authorizer = await startExtAuthzServer(owner);
  const echo = await startEcho(owner, { name: 'app' });
  const bytes = await startTcpEcho(owner, { name: 'bytes' });
  const meshConfig = join(await tempDir(owner), 'mesh.yaml');
  const setProviders = (extensionProviders: readonly Document[]) =>
    writeFile(meshConfig, stringify({ extensionProviders }));
  await setProviders(PROVIDERS);
  const mesh = await startMesh(owner, address, {
    flags: ['--meshConfig', meshConfig],
    files: {
      authorizer: [
        service('authorizer', { clusterIP: '10.96.0.9', ports: [{ name: 'http', port: AUTHORIZER_PORT }] }),
        endpoints('authorizer', ['127.0.0.1'], [{ name: 'http', port: authorizer.port }]),
      ],
      app: [
        service('app', { ports: [{ name: 'http', port: HTTP }] }),
        endpoints('app', [echo.address], [{ name: 'http', port: echo.port }]),
      ],
      sidecar: [
        pod('sidecar', { ip: SERVERS.sidecar, labels: { app: 'sidecar' } }),
        service('guarded', {
          clusterIP: '10.96.0.1',
          ports: [
            { name: 'http', port: HTTP },
            { name: 'tcp', port: TCP },
          ],
        }),
        endpoints('guarded', { sidecar: SERVERS.sidecar }, [
          { name: 'http', port: HTTP },
          { name: 'tcp', port: TCP },
        ]),
        sidecar('sidecar', {
          address: SERVERS.sidecar,
          // The proxy must see the authorizer's service.
          egress: [{ number: AUTHORIZER_PORT, protocol: 'HTTP' }],
          ingress: [
            { number: HTTP, protocol: 'HTTP', to: `${echo.address}:${echo.port}` },
            { number: TCP, protocol: 'TCP', to: `${bytes.address}:${bytes.port}` },
          ],
        }),
      ],
      gateway: [
        resource('Gateway', 'gateway', {
          selector: { app: 'gateway' },
          servers: [{ hosts: ['*'], port: { number: HTTP, name: 'http', protocol: 'HTTP' }, bind: SERVERS.gateway }],
        }),
        resource('VirtualService', 'all', {
          hosts: ['*'],
          gateways: ['gateway'],
          http: [{ route: [{ destination: { host: 'app.default.svc.cluster.local' } }] }],
        }),
      ],
    },
  });
  await mesh.startProxy({ name: 'sidecar', address: SERVERS.sidecar, mode: 'delta' });
  await mesh.startProxy({ name: 'gateway', type: 'router', address: SERVERS.gateway, mode: 'sotw' });
  shared.set({ ...mesh, authorizer, setProviders });
});
after(() => table.print('External authorization through real Envoys'));

afterEach(async () => {
  const { config, authorizer } = shared.get();
  await config.remove('policies').catch(() => undefined);
  await authorizer.up();
  // Otherwise the next policy may seem to have arrived too early.
  await eventually(
    async () => {
      const calls = ['/', '/ask', '/ask/x', '/strict', '/open', '/503', '/nowhere', '/both', '/one'];
      for (const server of BOTH) for (const path of calls) assert.equal(await outcome(server, { path }), 'app');
    },
    { timeoutMs: 30_000 },
  );
});

type Verdict = 'allow' | 'deny' | 'error' | 'hang';
interface Call {
  readonly path: string;
  readonly verdict?: Verdict;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

function send(server: Server, { path, verdict = 'deny', method = 'GET', headers = {}, body }: Call): Promise<Response> {
  return request({
    address: SERVERS[server],
    port: HTTP,
    path,
    method,
    headers: { 'x-verdict': verdict, ...headers },
    ...(body === undefined ? {} : { body }),
  });
}

/** `app` when the application answered, otherwise status and body. */
async function outcome(server: Server, call: Call): Promise<string> {
  const { status, headers, body } = await send(server, call);
  return headers['x-echo'] === 'app' ? 'app' : `${status} ${body}`.trim();
}

/** Applies policies, waits until both servers treat every call as expected, and counts the calls. */
async function expect(what: string, documents: readonly Document[], calls: readonly (readonly [Call, string])[]) {
  await shared.get().config.apply('policies', ...documents);
  const expectations = BOTH.flatMap((server) =>
    calls.map(([call, expected]) => ({
      group: 'CUSTOM',
      what,
      request: `${server} ${JSON.stringify(call)}`,
      expected,
      run: () => outcome(server, call),
    })),
  );
  await table.settle(expectations);
}

const DENIED = '418 denied by the authorizer';
const RBAC = '403 RBAC: access denied';

describe('external authorization', () => {
  test('the authorizer is asked about requests that a rule matches, and about no others', async () => {
    await expect('asked about some paths', ask('strict', at('/ask/*')), [
      [{ path: '/ask/x', verdict: 'allow' }, 'app'],
      [{ path: '/ask/x', verdict: 'deny' }, DENIED],
      [{ path: '/x/..//ask/x', verdict: 'deny' }, DENIED],
      [{ path: '/free', verdict: 'deny' }, 'app'],
    ]);
  });

  test('the mesh configuration says how it is asked, and its response reaches the client', async () => {
    await expect('an empty rule', ask('strict', [{}]), [[{ path: '/' }, DENIED]]);
    const { authorizer } = shared.get();
    for (const server of BOTH) {
      const first = authorizer.asked.length;
      const headers = { 'x-told': 'yes', 'x-told-too': 'yes', 'x-untold': 'no', cookie: 'secret=1' };
      const allowed = await send(server, { path: '/a?b=c', verdict: 'allow', method: 'POST', headers, body: 'x' });
      const asked = authorizer.asked.slice(first);
      assert.equal(asked.length, 1);
      const [question] = asked;
      assert.deepEqual([question?.method, question?.path, question?.body], ['POST', '/check/a?b=c', '']);
      const told = ['x-told', 'x-told-too', 'x-mesh', 'x-untold', 'cookie'].map((name) => question?.headers[name]);
      assert.deepEqual(told, ['yes', 'yes', 'meshd', undefined, undefined]);
      // Headers that it adds reach the application or the client as the mesh configuration says.
      const { headers: seen } = JSON.parse(allowed.body) as EchoReply;
      assert.deepEqual([seen['x-user'], seen['x-secret']], ['ann', undefined]);
      assert.deepEqual([allowed.headers['x-greeting'], allowed.headers['x-secret']], ['welcome', undefined]);
      const denied = await send(server, { path: '/', verdict: 'deny' });
      assert.deepEqual([denied.status, denied.headers['x-reason'], denied.body], [418, 'no teapot', DENIED.slice(4)]);
      assert.equal(denied.headers['x-secret'], undefined);
    }
  });

  test('a client cannot forge its answer', async () => {
    await expect('headers of the client', ask('strict', [{}]), [
      [{ path: '/', headers: { 'x-user': 'root' } }, DENIED],
    ]);
    for (const server of BOTH) {
      const { body } = await send(server, { path: '/', verdict: 'allow', headers: { 'x-user': 'root' } });
      assert.equal((JSON.parse(body) as EchoReply).headers['x-user'], 'ann');
    }
  });

  test('a failing or hanging authorizer denies, unless it is configured to fail open', async () => {
    await expect(
      'errors',
      [...ask('strict', at('/strict')), ...ask('open', at('/open')), ...ask('says-503', at('/503'))],
      [
        [{ path: '/strict', verdict: 'error' }, '403'],
        [{ path: '/strict', verdict: 'hang' }, '403'],
        [{ path: '/open', verdict: 'error' }, 'app'],
        [{ path: '/open', verdict: 'hang' }, 'app'],
        [{ path: '/open', verdict: 'deny' }, DENIED],
        [{ path: '/503', verdict: 'error' }, '503'],
      ],
    );
  });

  test('an unreachable authorizer denies, unless it may fail open; it is asked again when it is back', async () => {
    const { authorizer } = shared.get();
    const documents = [...ask('strict', at('/strict')), ...ask('open', at('/open')), ...ask('says-503', at('/503'))];
    await authorizer.down();
    await expect('down', documents, [
      [{ path: '/strict', verdict: 'allow' }, '403'],
      [{ path: '/open', verdict: 'deny' }, 'app'],
      [{ path: '/503', verdict: 'allow' }, '503'],
      [{ path: '/free', verdict: 'deny' }, 'app'],
    ]);
    await authorizer.up();
    await expect('up again', documents, [
      [{ path: '/strict', verdict: 'allow' }, 'app'],
      [{ path: '/open', verdict: 'deny' }, DENIED],
    ]);
  });

  test('an unknown authorizer denies the requests that its rules match', async () => {
    await expect(
      'unknown',
      [...ask('unknown', at('/ask')), ...ask('nowhere', at('/nowhere'))],
      [
        [{ path: '/ask', verdict: 'allow' }, RBAC],
        [{ path: '/nowhere', verdict: 'allow' }, RBAC],
        [{ path: '/free', verdict: 'deny' }, 'app'],
      ],
    );
  });

  test('it is asked before DENY and ALLOW, which apply as well', async () => {
    const documents = [
      ...ask('strict', at('/ask*')),
      ...policies('DENY', 'deny', at('/ask/deny')),
      ...policies('ALLOW', 'allow', at('/ask*', '/allow')),
    ];
    await expect('with DENY and ALLOW', documents, [
      [{ path: '/ask', verdict: 'allow' }, 'app'],
      [{ path: '/ask', verdict: 'deny' }, DENIED],
      [{ path: '/ask/deny', verdict: 'allow' }, RBAC],
      [{ path: '/ask/deny', verdict: 'deny' }, DENIED],
      [{ path: '/allow', verdict: 'deny' }, 'app'],
      [{ path: '/other', verdict: 'allow' }, RBAC],
    ]);
  });

  test('several authorizers must all agree', async () => {
    await expect(
      'two of them',
      [...ask('strict', at('/both')), ...ask('open', at('/both', '/one'))],
      [
        [{ path: '/both', verdict: 'allow' }, 'app'],
        [{ path: '/both', verdict: 'deny' }, DENIED],
        [{ path: '/both', verdict: 'error' }, '403'],
        [{ path: '/one', verdict: 'error' }, 'app'],
      ],
    );
  });

  test('an authorizer for HTTP cannot be asked about TCP connections, so they are refused', async () => {
    await shared.get().config.apply('policies', ...ask('strict', [{}]));
    await eventually(async () => assert.equal(await outcome('sidecar', { path: '/' }), DENIED), {
      timeoutMs: PATIENCE_MS,
    });
    // This port has its own listener, which may be updated a moment later.
    await eventually(() => assert.rejects(greeting(SERVERS.sidecar, TCP)), { timeoutMs: PATIENCE_MS });
    await shared.get().config.remove('policies');
    await eventually(async () => assert.equal(await greeting(SERVERS.sidecar, TCP), 'bytes'), {
      timeoutMs: PATIENCE_MS,
    });
  });

  test('after a policy is deleted the authorizer is no longer asked', async () => {
    await expect('before', ask('strict', [{}]), [[{ path: '/', verdict: 'deny' }, DENIED]]);
    await expect('deleted', [], [[{ path: '/', verdict: 'deny' }, 'app']]);
  });

  test('the mesh configuration is followed: an authorizer is removed and added again', async () => {
    const { setProviders } = shared.get();
    const documents = ask('strict', at('/ask'));
    await expect('known', documents, [[{ path: '/ask', verdict: 'allow' }, 'app']]);
    await setProviders([]);
    await expect('taken away', documents, [
      [{ path: '/ask', verdict: 'allow' }, RBAC],
      [{ path: '/free' }, 'app'],
    ]);
    await setProviders(PROVIDERS);
    await expect('back', documents, [
      [{ path: '/ask', verdict: 'allow' }, 'app'],
      [{ path: '/ask', verdict: 'deny' }, DENIED],
    ]);
  });
});
