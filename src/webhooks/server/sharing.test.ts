/** How callers share the webhooks: over TLS, answered by the real workers. The order of answers shows it, not time. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, type TestContext, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type TestCertificate, testCertificate } from '../testing/certificate.ts';
import { BEGUN, HELD_IN, LET_GO } from '../testing/held.ts';
import {
  type Call,
  call,
  documentReview,
  podReview,
  type StartedWebhooks,
  startWebhooks,
  VALID_DOCUMENT,
} from '../testing/webhook-client.ts';
import type { Review } from './pool.ts';

let certificate: TestCertificate;
before(() => {
  certificate = testCertificate('one.test');
});

const POD = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec: { containers: [{ name: 'app' }] } };

/** Pods with as many containers take a hundred times as long as a small one. */
const largePod = {
  ...POD,
  spec: { containers: Array.from({ length: 3000 }, (_, index) => ({ name: `c${index}`, image: 'a' })) },
};

/** Notes the names of requests in the order of their answers. */
function asking({ port }: StartedWebhooks): {
  readonly order: string[];
  ask(name: string, path: string, options: Call): Promise<void>;
} {
  const order: string[] = [];
  return {
    order,
    async ask(name, path, options) {
      const { status, text } = await call(port, path, options);
      assert.equal(status, 200, text);
      order.push(name);
    },
  };
}

/** Leaves the CPU to the threads that are waited for. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await setTimeout(5);
}

test('a Pod is injected while a document is validated', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'held-'));
  t.after(() => rm(folder, { recursive: true }));
  const workerFile = fileURLToPath(new URL('../testing/held-worker.ts', import.meta.url));
  const webhooks = await startWebhooks(t, certificate, { pool: { workerFile, taskTimeoutMs: 60_000 } });
  const metadata = { ...VALID_DOCUMENT.metadata, annotations: { [HELD_IN]: folder } };
  const validated = call(webhooks.port, '/validate', { body: documentReview({ ...VALID_DOCUMENT, metadata }) });
  await until(() => existsSync(join(folder, BEGUN)));
  for (let times = 0; times < 5; times++) {
    const { status, text } = await call(webhooks.port, '/inject', { body: podReview(POD) });
    assert.equal(status, 200, text);
  }
  await writeFile(join(folder, LET_GO), '');
  assert.equal((await validated).status, 200);
});

test('an API server is answered before Pods and unknown callers, however many addresses they have', async (t) => {
  const rankOf = (address: string) => (address === '127.0.0.1' ? 'api-server' : 'pod');
  const webhooks = await startWebhooks(t, certificate, { server: { rankOf } });
  await call(webhooks.port, '/inject', { body: podReview(POD) });
  const { order, ask } = asking(webhooks);
  const body = podReview(largePod);
  const strangers = Array.from({ length: 30 }, (_, index) =>
    ask('stranger', '/inject', { body, localAddress: `127.0.1.${(index % 10) + 1}` }),
  );
  await Promise.any(strangers);
  await ask('API server', '/inject', { body: podReview(POD) });
  await Promise.all(strangers);
  assert.ok(order.indexOf('API server') < 10, order.join());
});

/** The order in which reviews are answered that begin to wait at the same time: the first of the large ones begins. */
async function orderOf(t: TestContext, large: Partial<Review>, small: Partial<Review>): Promise<readonly string[]> {
  const { pool } = await startWebhooks(t, certificate);
  const order: string[] = [];
  const ask = async (name: string, pod: object, review: Partial<Review>): Promise<void> => {
    const caller = { address: '10.0.0.1', rank: 'unknown' } as const;
    const body = Buffer.from(podReview(pod));
    const { signal } = new AbortController();
    const webhook = { kind: 'inject', parameters: {} } as const;
    const reply = await pool.review({ caller, body, signal, webhook, ...review });
    assert.equal(reply.kind, 'answered');
    order.push(name);
  };
  const larges = Array.from({ length: 12 }, () => ask('large', largePod, large));
  const smalls = Array.from({ length: 12 }, () => ask('small', POD, small));
  await Promise.all([...larges, ...smalls]);
  return order;
}

test('callers share the time of a thread: one with large Pods does not get every second turn', async (t) => {
  const order = await orderOf(t, { caller: { address: '10.0.0.2', rank: 'unknown' } }, {});
  const until = order.slice(0, order.lastIndexOf('small'));
  assert.ok(until.filter((name) => name === 'large').length <= 3, order.join());
});

test('namespaces share the time of their API server', async (t) => {
  const body = (pod: object, namespace: string) => Buffer.from(asApiServer(podReview(pod, { namespace })));
  const order = await orderOf(t, { body: body(largePod, 'evil') }, { body: body(POD, 'shop') });
  const until = order.slice(0, order.lastIndexOf('small'));
  assert.ok(until.filter((name) => name === 'large').length <= 3, order.join());
});

/** API servers write the object at the end. */
function asApiServer(review: string): string {
  const { request, ...envelope } = JSON.parse(review);
  const { object, ...fields } = request;
  return JSON.stringify({ ...envelope, request: { ...fields, object } });
}

test('the thread of validation ends when it is idle, and that of injection stays', async (t) => {
  const { port, pool } = await startWebhooks(t, certificate, { pool: { idleMs: 10 } });
  for (let times = 0; times < 2; times++) {
    assert.equal((await call(port, '/inject', { body: podReview(POD) })).status, 200);
    const [injection] = pool.threads.inject;
    assert.equal((await call(port, '/validate', { body: documentReview(VALID_DOCUMENT) })).status, 200);
    await until(() => pool.threads.validate.length === 0);
    assert.deepEqual(pool.threads.inject, [injection]);
  }
});

test('the thread of injection is started again when it has died between reviews', async (t) => {
  const { port, pool } = await startWebhooks(t, certificate);
  await call(port, '/inject', { body: podReview(POD) });
  const [first] = pool.threads.inject;
  await first?.terminate();
  await until(() => pool.threads.inject.length > 0 && pool.threads.inject[0] !== first);
  const { text } = await call(port, '/inject', { body: podReview(POD) });
  assert.equal(JSON.parse(text).response.patchType, 'JSONPatch');
});
