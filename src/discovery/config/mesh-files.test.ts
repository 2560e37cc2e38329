import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../core/clock.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { Connection } from '../../kubernetes/index.ts';
import { ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { getScope } from '../../logging/index.ts';
import type { MeshConfig, MeshNetworks } from '../../resources/mesh-config.ts';
import type { MeshUpdate } from '../../resources/mesh-update.ts';
import { type DiscoverySettings, defaultDiscoverySettings } from '../../settings/index.ts';
import { followMeshFiles } from './mesh-files.ts';

test('a changed mesh configuration is applied, with a warning for fields that need a restart', async (context) => {
  const dir = await mkdtemp(join(tmpdir(), 'meshd-inputs-'));
  const path = join(dir, 'mesh');
  await writeFile(path, 'trustDomain: one.example\n');
  const warn = context.mock.method(getScope('model'), 'warn', () => {});
  const changed = Promise.withResolvers<MeshConfig>();
  const settings = defaultDiscoverySettings({ meshConfig: path, networksConfig: join(dir, 'networks') });
  const files = followMeshFiles(settings, undefined);
  files.follow(({ mesh }) => mesh && changed.resolve(mesh));
  context.after(async () => {
    await files.close();
    await rm(dir, { recursive: true });
  });
  assert.equal((await files.first).mesh.trustDomain, 'one.example');
  await writeFile(path, 'trustDomain: two.example\nconnectTimeout: 3s\n');
  assert.equal((await changed.promise).connectTimeout, 3000);
  const lines = warn.mock.calls.map((call) => String(Reflect.get(call.arguments, 0)));
  assert.deepEqual(lines.length, 1);
  assert.match(lines[0] ?? '', /trustDomain .* needs a restart; until then "one.example" stays in force/);
});

const CONFIG_MAPS = '/api/v1/configmaps';

const configMap = (data: Readonly<Record<string, string>>, name = 'meshd') => ({
  metadata: { name, namespace: 'mesh-system' },
  data,
});

/** Reads the files of an empty directory and the ConfigMap of a scripted API server. */
async function opened(context: TestContext, server: ScriptedApiServer, changes: Partial<DiscoverySettings> = {}) {
  const dir = await mkdtemp(join(tmpdir(), 'meshd-mesh-'));
  const connection = new Connection({
    access: server.access(),
    clock: systemClock,
    random: () => 0,
    userAgent: 'test',
  });
  const lines: string[] = [];
  for (const level of ['info', 'warn', 'error'] as const) {
    context.mock.method(getScope('model'), level, (line: string) => void lines.push(line));
  }
  const [meshConfig, networksConfig] = [join(dir, 'mesh'), join(dir, 'networks')];
  const settings = defaultDiscoverySettings({ meshConfig, networksConfig, namespace: 'mesh-system', ...changes });
  const files = followMeshFiles(settings, connection);
  context.after(async () => {
    await files.close();
    connection.close();
    await rm(dir, { recursive: true });
  });
  let isKnown = false;
  const noteKnown = (): void => {
    isKnown = true;
  };
  files.first.then(noteKnown, noteKnown);
  return { files, lines, meshConfig, isKnown: () => isKnown };
}

async function followed(...[context, server, changes]: Parameters<typeof opened>) {
  const values: (MeshConfig | MeshNetworks)[] = [];
  const reading = await opened(context, server, changes);
  reading.files.follow(({ mesh, networks }) => values.push(...[mesh ?? [], networks ?? []].flat()));
  return { ...reading, values };
}

async function scripted(context: TestContext): Promise<ScriptedApiServer> {
  const server = await ScriptedApiServer.start();
  context.after(() => server.stop());
  server.serve(CONFIG_MAPS);
  return server;
}

const until = (what: string, condition: () => boolean) => waitUntil(condition, { what: () => what });

const secondsOf = (values: readonly (MeshConfig | MeshNetworks)[]) =>
  values.map((value) => ('connectTimeout' in value ? value.connectTimeout / 1000 : value));

test('without files, the mesh configuration and networks are read from the ConfigMap and followed', async (context) => {
  const server = await scripted(context);
  const meshNetworks = 'networks:\n  far:\n    endpoints:\n      - fromRegistry: east\n    gateways: []\n';
  server.set(CONFIG_MAPS, configMap({ mesh: 'connectTimeout: 1s', meshNetworks }));
  server.set(CONFIG_MAPS, configMap({ mesh: 'connectTimeout: 9s' }, 'other'));
  const { files, lines, values } = await followed(context, server);
  const { mesh, networks } = await files.first;
  assert.deepEqual([mesh.connectTimeout, Object.keys(networks.networks)], [1000, ['far']]);
  assert.ok(lines.includes('mesh configuration is read from ConfigMap mesh-system/meshd, key mesh'));
  server.set(CONFIG_MAPS, configMap({ mesh: 'connectTimeout: 2s', meshNetworks }));
  await until('the change', () => values.length === 1);
  server.set(CONFIG_MAPS, configMap({ mesh: 'trustDomain: a\nconnectTimeout: 3 parsecs', meshNetworks }));
  await until('the mistake', () => lines.some((line) => line.includes('parsecs')));
  assert.match(
    lines.at(-1) ?? '',
    /^ConfigMap mesh-system\/meshd, key mesh:2: connectTimeout: mesh configuration: .*; the last good one stays in force$/,
  );
  server.remove(CONFIG_MAPS, { name: 'meshd', namespace: 'mesh-system' });
  await until('the deletion', () => lines.filter((line) => line.includes('was deleted')).length === 2);
  server.set(CONFIG_MAPS, configMap({ mesh: 'connectTimeout: 4s', meshNetworks }));
  await until('the new ConfigMap', () => values.length === 2);
  assert.deepEqual(secondsOf(values), [2, 4]);
});

test('without the ConfigMap the default is in force, and the ConfigMap is read when it is created', async (context) => {
  const server = await scripted(context);
  const { files, lines, values } = await followed(context, server, { revision: 'canary' });
  assert.equal((await files.first).mesh.connectTimeout, 10_000);
  const absent = 'ConfigMap mesh-system/meshd-canary does not exist; the default is in force until it does';
  assert.ok(lines.includes(`mesh configuration: ${absent}`) && lines.includes(`mesh networks: ${absent}`));
  server.set(CONFIG_MAPS, configMap({ mesh: 'connectTimeout: 2s' }, 'meshd-canary'));
  await until('the ConfigMap', () => values.length === 1);
  assert.deepEqual(secondsOf(values), [2]);
});

test('changes from before anybody follows the files are one update, with the time of the first', async (context) => {
  const server = await scripted(context);
  const { files, lines } = await opened(context, server);
  await files.first;
  const change = async (trustDomain: string, more = {}): Promise<void> => {
    server.set(CONFIG_MAPS, configMap({ mesh: `trustDomain: ${trustDomain}`, ...more }));
    await until(trustDomain, () => lines.some((line) => line.includes(`now "${trustDomain}", which needs a restart`)));
  };
  await change('first.example');
  const afterFirst = systemClock.now();
  await change('second.example', { meshNetworks: 'networks: {far: {}}' });
  const updates: MeshUpdate[] = [];
  files.follow((update) => updates.push(update));
  await change('third.example');
  const shown = updates.map(({ mesh, networks }) => [mesh?.trustDomain, Object.keys(networks?.networks ?? {})]);
  assert.deepEqual(shown, [
    ['second.example', ['far']],
    ['third.example', []],
  ]);
  assert.deepEqual(
    updates.map(({ eventTime }) => eventTime <= afterFirst),
    [true, false],
  );
});

test('a ConfigMap that may not be read, or is invalid, is waited for at start', async (context) => {
  const server = await scripted(context);
  server.intercept = (_request, stream) => server.fail(stream, 403, 'Forbidden');
  const { files, lines, isKnown } = await followed(context, server);
  await until('the refusal', () => lines.some((line) => line.includes('403')));
  assert.match(
    lines.at(-1) ?? '',
    /^ConfigMap mesh-system\/meshd: cannot list: HTTP 403.*; the program does not become ready without it: the default/,
  );
  server.set(CONFIG_MAPS, configMap({ mesh: 'outboundTrafficPolicy: {mode: CLOSED}' }));
  server.intercept = () => false;
  await until('the mistake', () =>
    lines.some((line) => line.endsWith('the program does not become ready until it is corrected')),
  );
  assert.equal(isKnown(), false);
  server.set(CONFIG_MAPS, configMap({ mesh: 'outboundTrafficPolicy: {mode: REGISTRY_ONLY}' }));
  assert.equal((await files.first).mesh.outboundTrafficPolicy.mode, 'REGISTRY_ONLY');
});

test('a file counts before the ConfigMap, also one that is created later', async (context) => {
  const server = await scripted(context);
  server.set(CONFIG_MAPS, configMap({ mesh: 'connectTimeout: 1s' }));
  const { files, lines, values, meshConfig } = await followed(context, server);
  assert.equal((await files.first).mesh.connectTimeout, 1000);
  // The content of the default: it differs from the ConfigMap.
  await writeFile(meshConfig, 'connectTimeout: 10s');
  await until('the file', () => values.length === 1);
  const both = `the file ${meshConfig} is in force, not key mesh of ConfigMap mesh-system/meshd`;
  assert.ok(lines.includes(`mesh configuration: ${both}`));
  server.set(CONFIG_MAPS, configMap({ mesh: 'connectTimeout: 3s', meshNetworks: 'networks: {far: {}}' }));
  await until('the networks', () => values.length === 2);
  await writeFile(meshConfig, 'connectTimeout: 5s');
  await until('the next file', () => values.length === 3);
  assert.deepEqual([secondsOf(values)[0], secondsOf(values)[2]], [10, 5]);
});

test('with a configuration directory no ConfigMap is read, and a revision is part of a name', async (context) => {
  const server = await scripted(context);
  const { files } = await followed(context, server, { configDir: '/nowhere' });
  assert.equal((await files.first).mesh.connectTimeout, 10_000);
  assert.equal(server.requests.length, 0);
  await assert.rejects(followed(context, server, { revision: 'a,b' }), /expected lower-case letters/);
});
