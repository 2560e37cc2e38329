/** The policy thread: what happens to calls when it dies, and when one caller has very many. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../core/clock.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { workerUrl } from '../../paths.ts';
import type { CallerRecord } from '../../policy/index.ts';
import { documentsOf } from '../../policy/testing/compiled.ts';
import { encode, envoy } from '../../protobuf/index.ts';
import { PolicyThreadOwner } from './thread-owner.ts';

const { CheckRequest, CheckResponse } = envoy.service.auth.v3;

const DOCUMENTS = documentsOf(`
kind: handler
metadata: { name: deny, namespace: shop }
spec: { compiledAdapter: denier, params: { status: { code: 7, message: no } } }
---
kind: instance
metadata: { name: any, namespace: shop }
spec: { compiledTemplate: checknothing }
---
kind: rule
metadata: { name: all, namespace: shop }
spec: { actions: [{ handler: deny, instances: [any] }] }
`);

function caller(namespace: string): CallerRecord {
  const principal = `td/ns/${namespace}/sa/web`;
  return { key: `spiffe://${principal}`, namespace, principal, address: '10.0.0.1' };
}

const REQUEST = Buffer.from(encode(CheckRequest, { attributes: { request: { http: { path: '/', method: 'GET' } } } }));

function start(context: TestContext): { readonly owner: PolicyThreadOwner; readonly crashes: string[] } {
  const crashes: string[] = [];
  const owner = new PolicyThreadOwner({
    workerFile: workerUrl('policy'),
    data: { options: { language: undefined, configNamespace: 'mesh-system' }, skipsSanVerification: false },
    clock: systemClock,
    random: () => 0,
    state: () => ({
      documents: DOCUMENTS.map((each) => [`${each.kind}/${each.namespace}/${each.name}`, each]),
      workloads: { set: [], deleted: [], services: [] },
    }),
    onMessage: () => undefined,
    onCrash: (reason) => crashes.push(reason),
  });
  owner.start();
  context.after(() => owner.close());
  return { owner, crashes };
}

const codeOf = async (answer: Promise<Buffer>): Promise<number | undefined> =>
  CheckResponse.decode(await answer).status?.code;

test('a rule applies to its own namespace only', async (t) => {
  const { owner } = start(t);
  assert.equal(await codeOf(owner.check(caller('shop'), REQUEST)), 7);
  assert.equal(await codeOf(owner.check(caller('other'), REQUEST)), 0);
  await assert.rejects(owner.check(caller('shop'), Buffer.from([0xff])), { code: 'unavailable' });
});

test('when the thread dies, its calls fail, and the next thread decides as before', async (t) => {
  const { owner, crashes } = start(t);
  const shop = caller('shop');
  assert.equal(await codeOf(owner.check(shop, REQUEST)), 7);
  const before = owner.thread;
  const inFlight = assert.rejects(owner.check(shop, REQUEST), { code: 'unavailable' });
  await before?.terminate();
  await inFlight;
  assert.equal(crashes.length, 1);
  await assert.rejects(owner.check(shop, REQUEST), { code: 'unavailable' });
  await waitUntil(() => owner.thread !== undefined && owner.thread !== before);
  assert.equal(await codeOf(owner.check(shop, REQUEST)), 7);
});

test('the flood of one caller leaves the others served', async (t) => {
  const { owner } = start(t);
  const [greedy, modest] = [caller('shop'), caller('other')];
  let refused = 0;
  let answered = 0;
  const flood = Array.from({ length: 20_000 }, () =>
    owner.check(greedy, REQUEST).then(
      () => void answered++,
      () => void refused++,
    ),
  );
  const first = await codeOf(owner.check(modest, REQUEST));
  assert.equal(first, 0);
  assert.ok(answered < 1_000, `${answered} calls of the flood were answered before`);
  await Promise.all(flood);
  // Half of what is free to all.
  assert.ok(refused > 10_000, String(refused));
});

test('requests of one caller have at most half of the memory of all, and those that end return it', async (t) => {
  const { owner } = start(t);
  const http = { path: '/', method: 'GET', headers: { 'x-long': 'x'.repeat(256 * 1024 - 200) } };
  const large = Buffer.from(encode(CheckRequest, { attributes: { request: { http } } }));
  const flood = async (caller: CallerRecord, count: number): Promise<readonly string[]> =>
    Promise.all(
      Array.from({ length: count }, () =>
        codeOf(owner.check(caller, large)).then(String, (error: { code: string }) => error.code),
      ),
    );
  const [greedy, modest] = await Promise.all([flood(caller('shop'), 200), flood(caller('other'), 10)]);
  const refused = greedy.filter((code) => code === 'resource_exhausted').length;
  assert.ok(refused >= 70 && refused < 80, String(refused));
  assert.deepEqual(modest, Array(10).fill('0'));
  assert.deepEqual(await flood(caller('shop'), 10), Array(10).fill('7'));
});

test('a thread that dies again and again starts ever later, until it has run for a minute', async (t) => {
  let now = 1_000_000;
  const delays: number[] = [];
  const restarts: (() => void)[] = [];
  // Stand-in for the thread: ends as soon as its configuration is in force.
  const dying = "import { parentPort } from 'node:worker_threads'; parentPort.postMessage({ kind: 'configured' });";
  const owner = new PolicyThreadOwner({
    workerFile: new URL(`data:text/javascript,${encodeURIComponent(dying)}`),
    data: { options: { language: undefined, configNamespace: 'mesh-system' }, skipsSanVerification: false },
    clock: {
      now: () => now,
      setTimer: (ms, run) => {
        // The watch over a thread looks once a second.
        if (ms !== 1_000) restarts.push(run);
        if (ms !== 1_000) delays.push(ms);
        return { cancel: () => undefined };
      },
    },
    random: () => 0,
    state: () => ({ documents: [], workloads: { set: [], deleted: [], services: [] } }),
    onMessage: () => undefined,
    onCrash: () => undefined,
  });
  owner.start();
  t.after(() => owner.close());
  for (const passed of [1_000, 59_000, 60_000, 1_000, 0]) {
    await waitUntil(() => restarts.length > 0);
    now += passed;
    restarts.shift()?.();
  }
  await waitUntil(() => restarts.length > 0);
  assert.deepEqual(delays, [200, 400, 800, 200, 400, 800]);
});
