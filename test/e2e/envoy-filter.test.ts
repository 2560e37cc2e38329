/**
 * EnvoyFilters with real Envoys, over State of the World and Delta: patches come, change and go while requests are
 * answered, routes move into their route configuration and out again, a patch with a mistake changes nothing, and one
 * that does not fit keeps its former version.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { eventually, startEcho } from '../harness/index.ts';
import { type Document, endpoints, pod, resource, service } from './support/config.ts';
import { type MeshProxy, MODES, sidecar } from './support/mesh.ts';
import { startTraffic } from './support/steady-traffic.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll } from './support/traffic.ts';
import { HTTP_PORT, startVersionsMesh, type VersionsMesh } from './support/versions.ts';

const owner = suiteOwner();
const shared = lazy<VersionsMesh>();
const mesh = (): VersionsMesh => shared.get();

const MANAGER = 'envoy.filters.network.http_connection_manager';

interface MarkingOptions {
  readonly context?: string;
  /** It is inserted after the router, where it does not fit. */
  readonly isBad?: boolean;
}

/** A script that marks requests. */
function marking(mark: string, { context = 'SIDECAR_OUTBOUND', isBad = false }: MarkingOptions = {}): Document {
  const subFilter = { name: 'envoy.filters.http.router' };
  return {
    applyTo: 'HTTP_FILTER',
    match: { context, listener: { filterChain: { filter: { name: MANAGER, ...(!isBad && { subFilter }) } } } },
    patch: {
      operation: isBad ? 'ADD' : 'INSERT_BEFORE',
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

/** A filter that discovers its configuration, and the configuration: a script that marks requests. */
function discovering(mark: string): readonly Document[] {
  const type = 'type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua';
  const discovery = { config_source: { ads: {}, resource_api_version: 'V3' }, type_urls: [type] };
  const script = `function envoy_on_request(handle) handle:headers():replace("x-mark", "${mark}") end`;
  const config = { '@type': type, default_source_code: { inline_string: script } };
  return [
    { ...marking(mark), patch: { operation: 'INSERT_BEFORE', value: { name: 'mark', config_discovery: discovery } } },
    { applyTo: 'EXTENSION_CONFIG', patch: { operation: 'ADD', value: { name: 'mark', typed_config: config } } },
  ];
}

test('a filter discovers its configuration, of which an edit changes no listener and fails no request', async () => {
  const { clients, config } = mesh();
  const listeners = () => Promise.all(clients.map(async (client) => await client.stats('lds.update_success')));
  await config.apply('patches', filter(...discovering('one')));
  await everywhere('one', 200);
  const before = await listeners();
  assert.ok(before.every((counts) => Object.keys(counts).length > 0));
  const traffic = startTraffic(clients.map(({ address }) => ({ address, port: HTTP_PORT, host: 'web' })));
  await config.apply('patches', filter(...discovering('two')));
  await everywhere('two', 200);
  assert.deepEqual(await traffic.stop(), []);
  assert.deepEqual(await listeners(), before);
  await config.remove('patches');
  await everywhere(undefined, 200);
});

test('listener filters and filters by class are added for proxies with some metadata, and removed again', async () => {
  const rbac = 'type.googleapis.com/envoy.extensions.filters.network.rbac.v3.RBAC';
  const everyone = { permissions: [{ any: true }], principals: [{ any: true }] };
  const rules = { action: 'DENY', policies: { everyone } };
  const inspector = 'type.googleapis.com/envoy.extensions.filters.listener.http_inspector.v3.HttpInspector';
  const proxy = { metadata: { NAMESPACE: 'default' } };
  const listener = { portName: 'http' };
  const patched = (names: object): Document[] => [
    {
      applyTo: 'NETWORK_FILTER',
      match: { context: 'SIDECAR_OUTBOUND', proxy: names, listener },
      patch: {
        operation: 'ADD',
        filterClass: 'AUTHZ',
        value: { name: 'deny', typed_config: { '@type': rbac, stat_prefix: 'denied', rules } },
      },
    },
    {
      applyTo: 'LISTENER_FILTER',
      match: { context: 'SIDECAR_OUTBOUND', proxy: names, listener },
      patch: { operation: 'INSERT_FIRST', value: { name: 'first-bytes', typed_config: { '@type': inspector } } },
    },
  ];
  await mesh().config.apply('patches', filter(...patched(proxy)));
  await eventuallyAll(mesh().clients, async (client) => {
    assert.match(await client.admin('/config_dump?resource=dynamic_listeners'), /first-bytes/);
    await assert.rejects(send(client));
  });
  await mesh().config.apply('patches', filter(...patched({ metadata: { NAMESPACE: 'another' } })));
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

test('a policy is in force at once while the edit of an EnvoyFilter does not fit, and its former version applies', async () => {
  const { clients, config, discovery, startProxy } = mesh();
  const app = await startEcho(owner, { name: 'app' });
  const network = clients[0]?.address.replace(/\d+$/, '') ?? '';
  const servers = await Promise.all(
    MODES.map(async (mode, index) => {
      const [name, address] = [`server-${mode}`, `${network}${30 + index}`];
      const ingress = [{ number: HTTP_PORT, protocol: 'HTTP', to: `${app.address}:${app.port}` }];
      const ports = [{ name: 'http', port: HTTP_PORT }];
      await config.apply(
        name,
        pod(name, { ip: address, labels: { app: name } }),
        service(name, { clusterIP: `10.96.1.${index + 1}`, ports }),
        endpoints(name, { [name]: address }, ports),
        sidecar(name, { address, ingress }),
      );
      return startProxy({ name, address, mode });
    }),
  );
  const statuses = async (server: MeshProxy) => {
    const get = (path: string) => call({ address: server.address, port: HTTP_PORT, host: 'server', path });
    const [open, secret] = [await get('/'), await get('/secret')];
    return [open.reply?.headers['x-mark'], open.status, secret.status];
  };
  const everyServer = (mark: string, secret: number) =>
    eventuallyAll(servers, async (server) => assert.deepEqual(await statuses(server), [mark, 200, secret]));
  const context = 'SIDECAR_INBOUND';
  await config.apply('patches', filter(marking('good', { context })));
  await everyServer('good', 200);
  await config.apply('patches', filter(marking('bad', { context, isBad: true })));
  await eventually(() =>
    assert.match(discovery().output(), /the former version of EnvoyFilter\/default\/patches applies/),
  );
  const rules = [{ to: [{ operation: { paths: ['/secret'] } }] }];
  await config.apply('policy', resource('AuthorizationPolicy', 'policy', { action: 'DENY', rules }));
  await everyServer('good', 403);
  await config.apply('patches', filter(marking('better', { context })));
  await everyServer('better', 403);
  await config.remove('policy');
  await config.remove('patches');
});
