/**
 * EnvoyFilters with real Envoys, over State of the World and Delta: patches come, change and go while requests are
 * answered, routes move into their route configuration and out again, and a patch with a mistake changes nothing.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { eventually } from '../harness/index.ts';
import { type Document, resource } from './support/config.ts';
import type { MeshProxy } from './support/mesh.ts';
import { startTraffic } from './support/steady-traffic.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll } from './support/traffic.ts';
import { HTTP_PORT, startVersionsMesh, type VersionsMesh } from './support/versions.ts';

const owner = suiteOwner();
const shared = lazy<VersionsMesh>();
const mesh = (): VersionsMesh => shared.get();

const MANAGER = 'envoy.filters.network.http_connection_manager';

/** A script that marks requests. */
function marking(mark: string): Document {
  return {
    applyTo: 'HTTP_FILTER',
    match: {
      context: 'SIDECAR_OUTBOUND',
      listener: { filterChain: { filter: { name: MANAGER, subFilter: { name: 'envoy.filters.http.router' } } } },
    },
    patch: {
      operation: 'INSERT_BEFORE',
      value: {
        name: 'mark',
        typed_config: {
          '@type': 'type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua',
          default_source_code: {
            inline_string: `function envoy_on_request(handle) handle:headers():replace("x-mark", "${mark}") end`,
          },
        },
      },
    },
  };
}

/** The same by an extension that generation itself never uses. */
function mutating(mark: string): Document {
  const header = { key: 'x-mark', value: mark };
  const mutations = { request_mutations: [{ append: { header, append_action: 'OVERWRITE_IF_EXISTS_OR_ADD' } }] };
  const type = 'type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation';
  const value = { name: 'mark', typed_config: { '@type': type, mutations } };
  return { ...marking(mark), patch: { operation: 'INSERT_BEFORE', value } };
}

const answering = (status: number): Document => ({
  applyTo: 'HTTP_ROUTE',
  match: { context: 'SIDECAR_OUTBOUND', routeConfiguration: { portNumber: HTTP_PORT } },
  patch: { operation: 'INSERT_FIRST', value: { match: { path: '/patched' }, direct_response: { status } } },
});

const filter = (...configPatches: readonly Document[]): Document =>
  resource('EnvoyFilter', 'patches', { configPatches });

before(async () => {
  shared.set(await startVersionsMesh(owner, { env: { CTL_DEBOUNCE_AFTER: '10ms' } }));
  await eventuallyAll(mesh().clients, async (client) => assert.equal((await send(client)).status, 200));
});

function send(client: MeshProxy, path = '/') {
  return call({ address: client.address, port: HTTP_PORT, host: 'web', path });
}

async function everywhere(mark: string | undefined, status: number): Promise<void> {
  await eventuallyAll(mesh().clients, async (client) => {
    assert.equal((await send(client)).reply?.headers['x-mark'], mark);
    assert.equal((await send(client, '/patched')).status, status);
  });
}

test('patches come, change and go while requests are answered', async () => {
  const { clients, config } = mesh();
  const traffic = startTraffic(clients.map(({ address }) => ({ address, port: HTTP_PORT, host: 'web' })));
  let failures: readonly string[] = [];
  try {
    await config.apply('patches', filter(marking('one')));
    await everywhere('one', 200);
    await config.apply('patches', filter(marking('two'), answering(418)));
    await everywhere('two', 418);
    await config.apply('patches', filter(marking('two'), answering(404)));
    await everywhere('two', 404);
    await config.remove('patches');
    await everywhere(undefined, 200);
  } finally {
    failures = await traffic.stop();
  }
  assert.deepEqual(failures, []);
});

test('an extension that generation does not use can be configured', async () => {
  await mesh().config.apply('patches', filter(mutating('extension')));
  await everywhere('extension', 200);
  await mesh().config.remove('patches');
  await everywhere(undefined, 200);
});

test('a patch with a mistake is refused in one line that names the field, and the last good one stays', async () => {
  const { config, discovery } = mesh();
  await config.apply('patches', filter(marking('good')));
  await everywhere('good', 200);
  const wrong = {
    applyTo: 'HTTP_FILTER',
    patch: { operation: 'INSERT_FIRST', value: { name: 'x', typedConfig: {}, typo: 1 } },
  };
  await config.apply('patches', filter(marking('bad'), wrong));
  const lines = await eventually(() => {
    const found = discovery()
      .output()
      .split('\n')
      // Pushes of the filter are logged as well, some time after them.
      .filter((line) => line.includes('EnvoyFilter/default/patches: '));
    assert.notEqual(found.length, 0);
    return found;
  });
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? '', /patches\.yaml:\d+: .*spec\.configPatches\[1\]\.patch\.value\.typo: unknown field/);
  await everywhere('good', 200);
  await config.remove('patches');
  await everywhere(undefined, 200);
});
