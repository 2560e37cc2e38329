import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Snapshot } from '../../model/index.ts';
import { emptyMesh, resource, step } from '../../model/testing/build.ts';
import type { ProxyConfigs } from '../../webhooks/index.ts';
import { MAX_SELECTING, ProxyConfigTable } from './proxy-configs.ts';

const ROOT = emptyMesh().settings.rootNamespace;

const proxyConfig = (path: string, created: number, content: object) =>
  resource('ProxyConfig', path, content, { created });
const names = ({ documents: { general, selecting } }: ProxyConfigs) =>
  [general, selecting].map((each) => each.map(({ title }) => title));

function tableOf(snapshot: Snapshot) {
  const lines: string[] = [];
  const table = new ProxyConfigTable((key, { warnings = [] }) => {
    for (const { field, message } of warnings) lines.push(`${key}: ${field}: ${message}`);
  });
  table.published(snapshot);
  return { table, lines, of: (namespace: string) => table.of(namespace) };
}

test('a namespace has the oldest documents for all Pods, and its own with a selector', () => {
  let snapshot = emptyMesh();
  const { table, of } = tableOf(snapshot);
  assert.equal(of('shop'), undefined);
  const selector = { matchLabels: { app: 'web' } };
  snapshot = step(snapshot, [
    proxyConfig(`${ROOT}/late`, 2, {}),
    proxyConfig(`${ROOT}/early`, 1, {
      concurrency: 1,
      environmentVariables: { A: 'b' },
      image: { imageType: 'debug' },
    }),
    proxyConfig(`${ROOT}/web`, 1, { selector }),
    proxyConfig('shop/late', 9, {}),
    proxyConfig('shop/early', 8, { selector: {} }),
    proxyConfig('shop/web-2', 4, { selector }),
    proxyConfig('shop/web', 3, { selector }),
  ]).snapshot;
  table.published(snapshot);
  const shop = of('shop');
  assert.ok(shop !== undefined);
  assert.equal(shop.namespace, 'shop');
  assert.deepEqual(names(shop), [
    [`ProxyConfig ${ROOT}/early`, 'ProxyConfig shop/early'],
    ['ProxyConfig shop/web', 'ProxyConfig shop/web-2'],
  ]);
  assert.deepEqual(shop.documents.general[0]?.config, {
    concurrency: 1,
    proxyMetadata: { A: 'b' },
    image: { imageType: 'debug' },
  });
  assert.deepEqual(shop.documents.selecting[0]?.labels, { app: 'web' });
  assert.deepEqual(shop.documents.warnings, ['ProxyConfig shop/late: no effect, because an older one is for all Pods']);
  // The root namespace has its own once.
  const root = of(ROOT);
  assert.deepEqual(root && names(root), [[`ProxyConfig ${ROOT}/early`], [`ProxyConfig ${ROOT}/web`]]);
  const other = of('other');
  assert.deepEqual(other && names(other), [[`ProxyConfig ${ROOT}/early`], []]);
  snapshot = step(snapshot, [], [`ProxyConfig/${ROOT}/early`]).snapshot;
  table.published(snapshot);
  assert.deepEqual(
    of('other')?.documents.general.map(({ title }) => title),
    [`ProxyConfig ${ROOT}/late`],
  );
});

test('of many with a selector, the oldest count', () => {
  const selector = { matchLabels: { app: 'web' } };
  const many = Array.from({ length: MAX_SELECTING + 1 }, (_, index) =>
    proxyConfig(`shop/p${index}`, index, { selector }),
  );
  const { snapshot } = step(emptyMesh(), many);
  const { of, lines } = tableOf(snapshot);
  const { documents } = of('shop') ?? {};
  assert.equal(documents?.selecting.length, MAX_SELECTING);
  assert.deepEqual(documents?.warnings, [
    `of ${MAX_SELECTING + 1} ProxyConfigs with a selector, only the ${MAX_SELECTING} oldest take effect`,
  ]);
  assert.deepEqual(lines, [
    `ProxyConfig/shop/p${MAX_SELECTING}: spec: no effect, because the namespace has ${MAX_SELECTING} older ProxyConfigs with a selector`,
  ]);
});

test('a second document for all Pods is reported to its author, once', () => {
  let { snapshot } = step(emptyMesh(), [
    proxyConfig(`${ROOT}/first`, 1, {}),
    proxyConfig(`${ROOT}/second`, 2, { concurrency: 1 }),
    proxyConfig('shop/first', 1, {}),
    proxyConfig('shop/second', 2, {}),
  ]);
  const { table, lines } = tableOf(snapshot);
  assert.deepEqual(lines.toSorted(), [
    `ProxyConfig/${ROOT}/second: spec: no effect, because the older ProxyConfig ${ROOT}/first is for all Pods of the mesh`,
    'ProxyConfig/shop/second: spec: no effect, because the older ProxyConfig shop/first is for all Pods of the namespace',
  ]);
  assert.equal(table.warningsOf(`ProxyConfig/${ROOT}/second`).length, 1);
  snapshot = step(snapshot, [], ['ProxyConfig/shop/first']).snapshot;
  table.published(snapshot);
  assert.deepEqual([lines.length, table.warningsOf('ProxyConfig/shop/second')], [2, []]);
});

test('documents are the same object until they change, so that they are sent once', () => {
  const { snapshot } = step(emptyMesh(), [proxyConfig(`${ROOT}/a`, 1, {}), proxyConfig('shop/a', 1, {})]);
  const { table, of } = tableOf(snapshot);
  const [shop, other] = [of('shop')?.documents, of('other')?.documents];
  assert.ok(shop !== undefined && other !== undefined && shop !== other);
  assert.equal(of('shop')?.documents, shop);
  assert.equal(of('another')?.documents, other);
  table.published(step(snapshot, [proxyConfig('shop/b', 2, {})]).snapshot);
  assert.notEqual(of('shop')?.documents, shop);
});
