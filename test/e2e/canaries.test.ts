/**
 * A script that passes validation and that no Envoy can load: it reaches two of three Envoys, all keep the one before,
 * and everything else still changes.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { eventually as retry, startEcho } from '../harness/index.ts';
import { type Document, endpoints, resource, service } from './support/config.ts';
import { type MeshProxy, planMesh, startMesh, type TestMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll } from './support/traffic.ts';

const BACKEND_PORT = 7480;
const PORT = 7080;

const owner = suiteOwner();
const address = planMesh();
const shared = lazy<TestMesh & { readonly gateways: readonly MeshProxy[] }>();
const mesh = () => shared.get();

const gateway = resource('Gateway', 'front', {
  selector: { app: 'front' },
  servers: [{ hosts: ['*'], port: { number: PORT, name: 'http', protocol: 'HTTP' } }],
});

function routes(mark: string): Document {
  const headers = { request: { set: { 'x-mark': mark } } };
  const http = [{ headers, route: [{ destination: { host: 'a' } }] }];
  return resource('VirtualService', 'all', { hosts: ['*'], gateways: ['front'], http });
}

/** Marks requests by a script. */
function script(body: string): Document {
  const manager = { name: 'envoy.filters.network.http_connection_manager' };
  const subFilter = { name: 'envoy.filters.http.router' };
  const value = {
    name: 'mark',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua',
      default_source_code: { inline_string: `function envoy_on_request(handle) ${body} end` },
    },
  };
  const match = { context: 'GATEWAY', listener: { filterChain: { filter: { ...manager, subFilter } } } };
  const patch = { operation: 'INSERT_BEFORE', value };
  return resource('EnvoyFilter', 'script', { configPatches: [{ applyTo: 'HTTP_FILTER', match, patch }] });
}

const marking = (value: string) => script(`handle:headers():replace("x-script", "${value}")`);

before(async () => {
  await startEcho(owner, { name: 'a', address: address(21), port: BACKEND_PORT });
  const backend = [
    service('a', { ports: [{ name: 'http', port: BACKEND_PORT }] }),
    endpoints('a', [address(21)], [{ name: 'http', port: BACKEND_PORT }]),
  ];
  const started = await startMesh(owner, address, {
    files: { services: backend, front: [gateway], routes: [routes('first')], script: [] },
    env: { CTL_PUSH_CANARY: '2' },
  });
  const start = (index: number) =>
    ({ name: `front-${index}`, type: 'router', mode: 'delta', address: address(10 + index) }) as const;
  const gateways = await Promise.all(
    [0, 1, 2].map((index) => started.startProxy({ ...start(index), labels: { app: 'front' } })),
  );
  shared.set({ ...started, gateways });
});

/** Each Envoy marks requests so, by its route and by its script. */
async function served(mark: string, byScript: string | undefined): Promise<void> {
  await eventuallyAll(mesh().gateways, async (proxy) => {
    const { reply } = await call({ address: proxy.address, port: PORT });
    assert.deepEqual([reply?.headers['x-mark'], reply?.headers['x-script']], [mark, byScript]);
  });
}

interface Withheld {
  readonly type: string;
  readonly proxy: string;
  readonly message: string;
  readonly version: string;
  readonly acceptedVersion: string;
  readonly madeBy: readonly string[];
}

async function withheld(): Promise<readonly Withheld[]> {
  return ((await mesh().discovery().http('/debug/withheldz')).json() as { withheld: readonly Withheld[] }).withheld;
}

/** Trials whose canaries did not answer in time, in 300 ms: all proxies are sent what was tried. */
async function released(): Promise<number> {
  return (await mesh().discovery().metric('ctl_push_canary_seconds_count{result="released"}')) ?? 0;
}

const ATTEMPTS = 10;

/**
 * Applies scripts that no Envoy can load until one is withheld: on a crowded machine, an Envoy may answer too late.
 * Returns what is withheld then, and what the control plane wrote since that script.
 */
async function withheldScript(): Promise<{ readonly found: readonly Withheld[]; readonly output: () => string }> {
  const { config, discovery } = mesh();
  for (let attempt = 1; ; attempt++) {
    const [late, written] = [await released(), discovery().output().length];
    await config.apply('script', script(`this is no Lua ${attempt}`));
    const found = await retry(async () => {
      const now = await withheld();
      assert.ok(now.length > 0 || (await released()) > late, 'no trial has ended');
      return now;
    });
    if (found.length > 0) return { found, output: () => discovery().output().slice(written) };
    assert.ok(attempt < ATTEMPTS, 'no canary answered in time');
    await config.apply('script', marking('good'));
    await served('first', 'good');
  }
}

test('a script that Envoy rejects reaches two of three Envoys, and other changes reach all', async () => {
  const { config, discovery } = mesh();
  await served('first', undefined);
  await config.apply('script', marking('good'));
  await served('first', 'good');
  assert.deepEqual(await withheld(), []);
  const { found, output } = await withheldScript();
  const [listener, ...others] = found;
  assert.ok(listener !== undefined && others.length === 0);
  assert.match(listener.message, /script load error/);
  assert.ok(listener.madeBy.includes('EnvoyFilter/default/script'), listener.madeBy.join());
  assert.ok(listener.acceptedVersion !== '' && listener.acceptedVersion !== listener.version);
  // Everything else changes.
  await config.apply('routes', routes('second'));
  await served('second', 'good');
  const rejecting = new Set(output().match(/router~[0-9.]+(?=\S* rejects [a-z]+:)/g));
  assert.ok(rejecting.size >= 1 && rejecting.size <= 2, [...rejecting].join());
  assert.match(output(), /rejects \w+ \S+, which is withheld from the other proxies of gateway:/);
  assert.equal(await discovery().metric(`ctl_push_withheld{type="${listener.type}"}`), 1);
  await config.apply('script', marking('better'));
  await served('second', 'better');
  assert.deepEqual(await withheld(), []);
});
