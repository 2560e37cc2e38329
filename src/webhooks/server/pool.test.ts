import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { workerUrl } from '../../paths.ts';
import { MAX_PROXY_CONFIGS } from '../admission/reviewer.ts';
import { podReview, SETTINGS } from '../testing/webhook-client.ts';
import type { ProxyConfigs } from '../types.ts';
import { createAdmissionPool } from './pool.ts';

test('settings are not checked after the pool was closed, and no thread is started', async (t) => {
  const pool = createAdmissionPool({ workerFile: fileURLToPath(workerUrl('admit')), onCrash: () => {} });
  t.after(() => pool.close());
  await pool.close();
  await assert.rejects(pool.check(SETTINGS), { code: 'unavailable', message: 'the control plane is stopping' });
  assert.deepEqual(pool.threads, { inject: [], validate: [] });
});

/** A pool with these documents, and reviews of a Pod: the patch, as a string. */
function pooled(t: TestContext, proxyConfigs: (namespace: string) => ProxyConfigs) {
  const pool = createAdmissionPool({
    workerFile: fileURLToPath(workerUrl('admit')),
    onCrash: () => {},
    proxyConfigs,
    // The first review compiles the templates, which on a crowded machine takes longer than a review may.
    taskTimeoutMs: 60_000,
  });
  t.after(() => pool.close());
  pool.use(SETTINGS);
  const pod = { metadata: { name: 'web' }, spec: { containers: [{ name: 'app' }] } };
  const review = async (body: string) => {
    const { signal } = new AbortController();
    const caller = { address: '127.0.0.1', rank: 'unknown' } as const;
    const webhook = { kind: 'inject', parameters: {} } as const;
    const { body: answer } = await pool.review({ caller, webhook, body: Buffer.from(body), signal });
    const { patch } = JSON.parse(answer).response;
    return Buffer.from(patch, 'base64').toString();
  };
  return { pool, pod, review };
}

test('a Pod gets the ProxyConfigs of its own namespace, whatever else the review says before it', async (t) => {
  const asked: string[] = [];
  const { pod, review } = pooled(t, (namespace) => {
    asked.push(namespace);
    const config = { proxyMetadata: { NAMESPACE_OF_DOCUMENT: namespace } };
    const document = { title: `ProxyConfig ${namespace}/x`, labels: {}, config };
    return { namespace, documents: { general: [document], selecting: [], warnings: [] } };
  });
  assert.match(await review(podReview(pod)), /"NAMESPACE_OF_DOCUMENT","value":"shop"/);
  assert.deepEqual(asked, ['shop']);
  const misleading = podReview(pod).replace('{', '{"other":{"namespace":"bank"},');
  assert.match(await review(misleading), /"NAMESPACE_OF_DOCUMENT","value":"shop"/);
  assert.deepEqual(asked, ['shop', 'bank', 'shop']);
});

test('ProxyConfigs are sent to the thread once, and again after it has ended', async (t) => {
  let copies = 0;
  const documents = {
    general: [
      {
        title: 'ProxyConfig shop/x',
        labels: {},
        /** Copying a message reads it. */
        get config() {
          copies++;
          return { proxyMetadata: { FROM_DOCUMENT: 'yes' } };
        },
      },
    ],
    selecting: [],
    warnings: [],
  };
  const { pool, pod, review } = pooled(t, (namespace) => ({ namespace, documents }));
  const injected = async () => assert.match(await review(podReview(pod)), /"FROM_DOCUMENT","value":"yes"/);
  for (let round = 0; round < 3; round++) await injected();
  assert.equal(copies, 1);
  await pool.threads.inject[0]?.terminate();
  await injected();
  assert.equal(copies, 2);
});

test('ProxyConfigs that the thread has dropped for others are sent again', async (t) => {
  const byNamespace = new Map<string, ProxyConfigs>();
  const { pod, review } = pooled(t, (namespace) => {
    const config = { proxyMetadata: { NAMESPACE_OF_DOCUMENT: namespace } };
    const document = { title: `ProxyConfig ${namespace}/x`, labels: {}, config };
    const made = { namespace, documents: { general: [document], selecting: [], warnings: [] } };
    const known = byNamespace.get(namespace) ?? made;
    byNamespace.set(namespace, known);
    return known;
  });
  for (const round of [1, 2]) {
    for (let index = 0; index <= MAX_PROXY_CONFIGS; index++) {
      const body = podReview(pod, { namespace: `n${index}` });
      assert.match(await review(body), new RegExp(`"NAMESPACE_OF_DOCUMENT","value":"n${index}"`), `round ${round}`);
    }
  }
});
