/**
 * A denied request is denied at every moment: while ctl-discovery restarts, while other policies are added, changed and
 * removed, and from the first answer of a proxy. Requests are sent without a pause: no denied one may reach the
 * application, and every allowed one is answered.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually, request, startEcho } from '../harness/index.ts';
import { type Document, endpoints, pod, resource, service } from './support/config.ts';
import { type MeshProxy, planMesh, sidecar, startMesh, type TestMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const HTTP = 7094;
const address = planMesh();
const ADDRESSES = { sidecar: address(20), gateway: address(10) } as const;
type Server = keyof typeof ADDRESSES;
const SERVERS = Object.keys(ADDRESSES) as Server[];

const owner = suiteOwner();
const shared = lazy<TestMesh>();
const proxies = new Map<Server, MeshProxy>();

const deny = (name: string, path: string, more: Document = {}) =>
  resource('AuthorizationPolicy', name, {
    action: 'DENY',
    rules: [{ to: [{ operation: { paths: [path] } }] }],
    ...more,
  });
const allow = (name: string, ...paths: readonly string[]) =>
  resource('AuthorizationPolicy', name, { action: 'ALLOW', rules: [{ to: [{ operation: { paths } }] }] });

async function startProxy(server: Server): Promise<void> {
  const type = server === 'gateway' ? 'router' : 'sidecar';
  proxies.set(server, await shared.get().startProxy({ name: server, type, address: ADDRESSES[server], mode: 'delta' }));
}

before(async () => {
  const echo = await startEcho(owner, { name: 'app' });
  const port = { number: HTTP, name: 'http', protocol: 'HTTP' };
  const destination = { host: 'app.default.svc.cluster.local' };
  shared.set(
    await startMesh(owner, address, {
      files: {
        app: [
          service('app', { ports: [{ name: 'http', port: HTTP }] }),
          endpoints('app', ['127.0.0.1'], [{ name: 'http', port: echo.port }]),
        ],
        sidecar: [
          pod('sidecar', { ip: ADDRESSES.sidecar, labels: { app: 'sidecar' } }),
          sidecar('sidecar', {
            address: ADDRESSES.sidecar,
            ingress: [{ number: HTTP, protocol: 'HTTP', to: `127.0.0.1:${echo.port}` }],
          }),
        ],
        gateway: [
          resource('Gateway', 'gateway', {
            selector: { app: 'gateway' },
            servers: [{ hosts: ['*'], port, bind: ADDRESSES.gateway }],
          }),
          resource('VirtualService', 'all', {
            hosts: ['*'],
            gateways: ['gateway'],
            http: [{ route: [{ destination }] }],
          }),
        ],
        guard: [deny('guard', '/admin')],
      },
    }),
  );
  await Promise.all(SERVERS.map(startProxy));
});

interface Traffic {
  /** How often a path was answered with each status; 0: no answer. */
  readonly seen: ReadonlyMap<string, number>;
  stop(): Promise<void>;
}

/** Requests the paths from both servers, again and again. */
function startTraffic(...paths: readonly string[]): Traffic {
  const seen = new Map<string, number>();
  let stopped = false;
  const ask = async (server: Server, path: string): Promise<void> => {
    while (!stopped) {
      const answer = request({ address: ADDRESSES[server], port: HTTP, path });
      const status = await answer.then((each) => each.status).catch(() => 0);
      const key = `${path} ${status}`;
      seen.set(key, (seen.get(key) ?? 0) + 1);
      await sleep(2);
    }
  };
  const running = SERVERS.flatMap((server) => paths.map((path) => ask(server, path)));
  return {
    seen,
    async stop() {
      stopped = true;
      await Promise.all(running);
    },
  };
}

/** Waits until both servers answer in this way. */
function answered(path: string, status: number): Promise<void> {
  return eventually(
    async () => {
      for (const server of SERVERS) {
        assert.equal((await request({ address: ADDRESSES[server], port: HTTP, path })).status, status);
      }
    },
    { timeoutMs: 60_000 },
  );
}

describe('a denied request is denied at every moment', () => {
  test('while other policies are added, changed and removed', async () => {
    const { config } = shared.get();
    await answered('/admin', 403);
    const traffic = startTraffic('/admin', '/always');
    for (let round = 0; round < 5; round++) {
      await config.apply('more', deny('more', `/more-${round}`), allow('all', '/*'));
      await answered(`/more-${round}`, 403);
      await config.apply('more', allow('some', '/admin', '/always', `/some-${round}`));
      await answered(`/other-${round}`, 403);
      await config.remove('more');
      await answered(`/other-${round}`, 200);
    }
    await traffic.stop();
    assert.deepEqual([...traffic.seen.keys()].sort(), ['/admin 403', '/always 200']);
  });

  test('while one policy replaces another', async () => {
    const { config } = shared.get();
    await config.apply('one', deny('one', '/handed'));
    await answered('/handed', 403);
    const traffic = startTraffic('/handed');
    // Both in one step, and by a change of the policy itself.
    await config.apply('one', deny('two', '/handed'), deny('marker', '/marker'));
    await answered('/marker', 403);
    await config.apply('one', deny('two', '/hand*', { selector: {} }), deny('marker', '/marker-2'));
    await answered('/marker-2', 403);
    await traffic.stop();
    assert.deepEqual([...traffic.seen.keys()], ['/handed 403']);
    await config.remove('one');
    await answered('/handed', 200);
  });

  test('while ctl-discovery restarts', async () => {
    const { config, discovery, restart } = shared.get();
    const traffic = startTraffic('/admin', '/always');
    await discovery().stop();
    await config.apply('more', deny('more', '/after'));
    await restart();
    await answered('/after', 403);
    await traffic.stop();
    assert.deepEqual([...traffic.seen.keys()].sort(), ['/admin 403', '/always 200']);
    await config.remove('more');
  });

  test('from the first answer of a new proxy', async () => {
    for (const server of SERVERS) await proxies.get(server)?.stop();
    const traffic = startTraffic('/admin');
    await Promise.all(SERVERS.map(startProxy));
    await answered('/admin', 403);
    await traffic.stop();
    assert.deepEqual([...traffic.seen.keys()].sort(), ['/admin 0', '/admin 403']);
  });
});
