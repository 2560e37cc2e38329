import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { workerUrl } from '../../paths.ts';
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

test('a Pod gets the ProxyConfigs of its own namespace, whatever else the review says before it', async (t) => {
  const asked: string[] = [];
  const proxyConfigs = (namespace: string): ProxyConfigs => {
    asked.push(namespace);
    const config = { proxyMetadata: { NAMESPACE_OF_DOCUMENT: namespace } };
    const document = { title: `ProxyConfig ${namespace}/x`, labels: {}, config };
    return { namespace, general: [document], selecting: [], warnings: [] };
  };
  const pool = createAdmissionPool({ workerFile: fileURLToPath(workerUrl('admit')), onCrash: () => {}, proxyConfigs });
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
  assert.match(await review(podReview(pod)), /"NAMESPACE_OF_DOCUMENT","value":"shop"/);
  assert.deepEqual(asked, ['shop']);
  const misleading = podReview(pod).replace('{', '{"other":{"namespace":"bank"},');
  assert.match(await review(misleading), /"NAMESPACE_OF_DOCUMENT","value":"shop"/);
  assert.deepEqual(asked, ['shop', 'bank', 'shop']);
});
