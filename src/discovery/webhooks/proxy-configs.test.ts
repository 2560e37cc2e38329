import assert from 'node:assert/strict';
import { test } from 'node:test';
import { emptyMesh, resource, step } from '../../model/testing/build.ts';
import type { ProxyConfigs } from '../../webhooks/index.ts';
import { MAX_SELECTING, proxyConfigsOf } from './proxy-configs.ts';

const ROOT = emptyMesh().settings.rootNamespace;

const proxyConfig = (path: string, created: number, content: object) =>
  resource('ProxyConfig', path, content, { created });
const names = ({ general, selecting }: ProxyConfigs) =>
  [general, selecting].map((each) => each.map(({ title }) => title));

test('a namespace has the oldest documents for all Pods, and its own with a selector', () => {
  let snapshot = emptyMesh();
  const of = proxyConfigsOf(() => snapshot);
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
  const shop = of('shop');
  assert.ok(shop !== undefined);
  assert.equal(shop.namespace, 'shop');
  assert.deepEqual(names(shop), [
    [`ProxyConfig ${ROOT}/early`, 'ProxyConfig shop/early'],
    ['ProxyConfig shop/web', 'ProxyConfig shop/web-2'],
  ]);
  assert.deepEqual(shop.general[0]?.config, {
    concurrency: 1,
    proxyMetadata: { A: 'b' },
    image: { imageType: 'debug' },
  });
  assert.deepEqual(shop.selecting[0]?.labels, { app: 'web' });
  assert.deepEqual(shop.warnings, ['ProxyConfig shop/late: no effect, because an older one is for all Pods']);
  // The root namespace has its own once.
  const root = of(ROOT);
  assert.deepEqual(root && names(root), [[`ProxyConfig ${ROOT}/early`], [`ProxyConfig ${ROOT}/web`]]);
  const other = of('other');
  assert.deepEqual(other && names(other), [[`ProxyConfig ${ROOT}/early`], []]);
  snapshot = step(snapshot, [], [`ProxyConfig/${ROOT}/early`]).snapshot;
  assert.deepEqual(
    of('other')?.general.map(({ title }) => title),
    [`ProxyConfig ${ROOT}/late`],
  );
});

test('of many with a selector, the oldest count', () => {
  const selector = { matchLabels: { app: 'web' } };
  const many = Array.from({ length: MAX_SELECTING + 1 }, (_, index) =>
    proxyConfig(`shop/p${index}`, index, { selector }),
  );
  const { snapshot } = step(emptyMesh(), many);
  const shop = proxyConfigsOf(() => snapshot)('shop');
  assert.equal(shop?.selecting.length, MAX_SELECTING);
  assert.deepEqual(shop?.warnings, [
    `of ${MAX_SELECTING + 1} ProxyConfigs with a selector, the ${MAX_SELECTING} oldest count`,
  ]);
});
