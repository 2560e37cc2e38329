import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { keyOf, type ResourceEvent } from '../resources/types.ts';
import { defaultDiscoverySettings } from '../settings/index.ts';
import { ScriptedSource } from '../sources/testing/scripted.ts';
import { clusterAccess, createConnection } from './cluster.ts';
import { configuredSources, createSources } from './inputs.ts';

test('the registry Orchestrator needs a directory or a cluster, other registries need none', async (context) => {
  const folder = await mkdtemp(join(tmpdir(), 'meshd-inputs-'));
  context.after(() => rm(folder, { recursive: true }));
  const kubeconfig = join(folder, 'kubeconfig');
  const cluster = { name: 'c', cluster: { server: 'https://10.0.0.1' } };
  const contexts = [{ name: 'c', context: { cluster: 'c' } }];
  await writeFile(kubeconfig, JSON.stringify({ 'current-context': 'c', contexts, clusters: [cluster] }));
  const access = (changes: Parameters<typeof defaultDiscoverySettings>[0], env = {}) =>
    clusterAccess(defaultDiscoverySettings(changes), env);
  await assert.rejects(access({}), /nothing to read from/);
  await assert.rejects(access({ registries: ['Mock', 'Orchestrator'] }), /nothing to read from/);
  await assert.rejects(access({ kubeconfig: join(folder, 'none') }), /cannot read .*none \(ENOENT\)/);
  await assert.rejects(access({}, { KUBERNETES_SERVICE_HOST: '10.0.0.1' }), /serviceaccount\/token \(ENOENT\)/);
  assert.equal(await access({ registries: ['Mock'] }), undefined);
  assert.equal(await access({ configDir: 'config' }, { KUBERNETES_SERVICE_HOST: '10.0.0.1' }), undefined);
  assert.equal((await access({ kubeconfig }))?.server.host, '10.0.0.1');
  assert.equal((await access({}, { KUBECONFIG: kubeconfig }))?.server.host, '10.0.0.1');
});

test('with a directory and a cluster, both are read', () => {
  const access = { server: new URL('https://10.0.0.1'), tls: async () => ({}), token: async () => undefined };
  const idsOf = (changes: Parameters<typeof defaultDiscoverySettings>[0]) =>
    configuredSources(defaultDiscoverySettings(changes), createConnection(access), []).map(({ id }) => id);
  assert.deepEqual(idsOf({}), ['kubernetes']);
  assert.deepEqual(idsOf({ registries: ['Mock', 'Orchestrator'], configDir: '/nowhere' }), [
    'mock',
    'directory',
    'kubernetes',
  ]);
});

test('sources have the order of the registries; a directory that is not a registry comes first', async () => {
  const idsOf = (changes: Parameters<typeof defaultDiscoverySettings>[0]) =>
    configuredSources(defaultDiscoverySettings(changes), undefined, []).map(({ id, cluster }) => `${id} ${cluster}`);
  const configDir = '/nowhere';
  assert.deepEqual(idsOf({ registries: ['Orchestrator', 'Mock'], configDir }), [
    'directory Orchestrator',
    'mock Orchestrator',
  ]);
  assert.deepEqual(idsOf({ registries: ['Mock', 'Orchestrator'], configDir, clusterID: 'c1' }), [
    'mock c1',
    'directory c1',
  ]);
  assert.deepEqual(idsOf({ registries: ['Mock'], configDir }), ['directory Orchestrator', 'mock Orchestrator']);
});

test('without the registry Orchestrator only configuration is read from a directory', async (context) => {
  const configDir = await mkdtemp(join(tmpdir(), 'meshd-inputs-'));
  const documents = ['ServiceAccount', 'Endpoints', 'Namespace'].map(
    (kind) => `apiVersion: v1\nkind: ${kind}\nmetadata: {name: x}\n`,
  );
  await writeFile(join(configDir, 'a.yaml'), documents.join('---\n'));
  const sources = createSources(
    configuredSources(defaultDiscoverySettings({ registries: ['Mock'], configDir }), undefined, []),
  );
  context.after(async () => {
    await sources.close();
    await rm(configDir, { recursive: true });
  });
  const told = new Map<string, string[]>();
  const note = (id: string, events: readonly ResourceEvent[]): void => {
    const keys = events.map((event) => (event.type === 'set' ? keyOf(event.resource) : event.type));
    told.set(id, [...(told.get(id) ?? []), ...keys]);
  };
  await sources.open({
    sinkOf: ({ id }) => ({
      apply: (events) => note(id, events),
      replace: ({ events }) => note(id, events),
      changing: () => {},
    }),
    removed: () => {},
  });
  assert.deepEqual(told.get('directory'), ['Namespace//x']);
  assert.ok(told.get('mock')?.includes('Service/default/hello'));
});

test('sources are open when each has been read once, also when one fails afterwards', async () => {
  const [files, api] = ['files', 'api'].map((id) => new ScriptedSource({ id, cluster: 'c' }));
  assert.ok(files !== undefined && api !== undefined);
  const sources = createSources([files, api]);
  let opened = false;
  const opening = sources
    .open({ sinkOf: () => ({ apply: () => {}, replace: () => {}, changing: () => {} }), removed: () => {} })
    .then(() => {
      opened = true;
    });
  const synced = async () => {
    await nextTurn();
    return [opened, ...sources.status().map((each) => each.synced)];
  };
  assert.deepEqual(await synced(), [false, false, false]);
  files.list();
  files.disconnect('connection refused');
  assert.deepEqual(await synced(), [false, true, false]);
  api.list();
  await opening;
  assert.deepEqual(await synced(), [true, true, true]);
  assert.deepEqual(sources.status()[0]?.health, { ok: false, reason: 'connection refused' });
});

test('sources are added, removed and replaced; resources of a replaced one stay until the new one lists', async () => {
  const files = new ScriptedSource({ id: 'files', cluster: 'c' });
  const sources = createSources([files]);
  const lines: string[] = [];
  const opening = sources.open({
    sinkOf: ({ id }) => ({
      apply: () => void lines.push(`${id} tells`),
      replace: () => void lines.push(`${id} lists`),
      changing: () => {},
    }),
    removed: ({ id }) => void lines.push(`${id} is gone`),
  });
  files.list();
  await opening;
  const states = () => sources.status().map(({ id, synced }) => `${id} ${synced}`);
  const [east, next] = [1, 2].map(() => new ScriptedSource({ id: 'east', cluster: 'e' }));
  assert.ok(east !== undefined && next !== undefined);
  const adding = sources.add(east);
  assert.deepEqual(states(), ['files true', 'east false']);
  east.list();
  await adding;
  assert.deepEqual(states(), ['files true', 'east true']);
  const exchanging = sources.add(next);
  await nextTurn();
  assert.deepEqual(
    [states(), lines],
    [
      ['files true', 'east false'],
      ['files lists', 'east lists'],
    ],
  );
  next.list();
  await exchanging;
  await assert.rejects(sources.add(new ScriptedSource({ id: 'east', cluster: 'w' })), /expected cluster e/);
  await sources.remove('east');
  await sources.remove('east');
  next.remove('Service/ns/a');
  assert.deepEqual(states(), ['files true']);
  assert.deepEqual(lines, ['files lists', 'east lists', 'east lists', 'east is gone']);
  assert.throws(() => createSources([files, files]), /one id/);
});
