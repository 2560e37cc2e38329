import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { keyOf, type ResourceEvent } from '../../resources/kinds/types.ts';
import { defaultDiscoverySettings } from '../../settings/index.ts';
import { clusterAccess, createConnection } from '../clusters/cluster.ts';
import { createSources } from '../config/sources.ts';
import { configuredSources } from './inputs.ts';

const NAMESPACES = { namespaces: [], rootNamespace: 'mesh-system' };

test('the registry Orchestrator needs a directory or a cluster, other registries need none', async (context) => {
  const folder = await mkdtemp(join(tmpdir(), 'meshd-inputs-'));
  context.after(() => rm(folder, { recursive: true }));
  const kubeconfig = join(folder, 'kubeconfig');
  const cluster = { name: 'c', cluster: { server: 'https://10.0.0.1' } };
  const contexts = [{ name: 'c', context: { cluster: 'c' } }];
  await writeFile(kubeconfig, JSON.stringify({ 'current-context': 'c', contexts, clusters: [cluster] }));
  const access = (changes: Parameters<typeof defaultDiscoverySettings>[0], env = {}) =>
    clusterAccess(defaultDiscoverySettings(changes), env);
  await assert.rejects(access({}), /nothing to read/);
  await assert.rejects(access({ registries: ['Mock', 'Orchestrator'] }), /nothing to read/);
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
    configuredSources(defaultDiscoverySettings(changes), createConnection(access), NAMESPACES, {}).map(({ id }) => id);
  assert.deepEqual(idsOf({}), ['kubernetes']);
  assert.deepEqual(idsOf({ registries: ['Mock', 'Orchestrator'], configDir: '/nowhere' }), [
    'mock',
    'directory',
    'kubernetes',
  ]);
});

test('sources have the order of the registries; a directory that is not a registry comes first', async () => {
  const idsOf = (changes: Parameters<typeof defaultDiscoverySettings>[0]) =>
    configuredSources(defaultDiscoverySettings(changes), undefined, NAMESPACES, {}).map(
      ({ id, cluster }) => `${id} ${cluster}`,
    );
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

test('the external registry has its place among the others, and needs settings that can be used', () => {
  const extregistryServerURL = 'http://127.0.0.1:8500, https://consul.example:8501';
  const base = { configDir: '/nowhere', extregistryServerURL } as const;
  const idsOf = (changes: Parameters<typeof defaultDiscoverySettings>[0]) =>
    configuredSources(defaultDiscoverySettings({ ...base, ...changes }), undefined, NAMESPACES, {}).map(({ id }) => id);
  assert.deepEqual(idsOf({ registries: ['ExtRegistry', 'Mock', 'Orchestrator'] }), ['consul', 'mock', 'directory']);
  assert.deepEqual(idsOf({ registries: ['ExtRegistry'] }), ['directory', 'consul']);
  const registries = ['ExtRegistry'] as const;
  const refused = [
    [{ extregistryServerURL: '' }, /needs --extregistryServerURL/],
    [{ extregistryConsistency: 'eventual' }, /expected one of default, stale, consistent/],
    [{ extregistryNamespace: 'No.Namespace' }, /expected lower-case letters/],
    [{ extregistryDatacenters: 'dc1,dc1' }, /named only once/],
  ] as const;
  for (const [changes, message] of refused) assert.throws(() => idsOf({ registries, ...changes }), message);
});

test('without the registry Orchestrator only configuration is read from a directory', async (context) => {
  const configDir = await mkdtemp(join(tmpdir(), 'meshd-inputs-'));
  const documents = ['ServiceAccount', 'Endpoints', 'Namespace'].map(
    (kind) => `apiVersion: v1\nkind: ${kind}\nmetadata: {name: x}\n`,
  );
  const unread = [
    ['apps/v1', 'Deployment'],
    ['extensions.istio.io/v1alpha1', 'WasmPlugin'],
  ] as const;
  for (const [apiVersion, kind] of unread)
    documents.push(`apiVersion: ${apiVersion}\nkind: ${kind}\nmetadata: {name: x}\n`);
  await writeFile(join(configDir, 'a.yaml'), documents.join('---\n'));
  const ignored: number[] = [];
  const sources = createSources(
    configuredSources(defaultDiscoverySettings({ registries: ['Mock'], configDir }), undefined, NAMESPACES, {
      onIgnored: (count) => ignored.push(count),
    }),
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
  // A Deployment is nobody's mistake.
  assert.deepEqual(ignored, [1]);
  assert.ok(told.get('mock')?.includes('Service/default/hello'));
});
