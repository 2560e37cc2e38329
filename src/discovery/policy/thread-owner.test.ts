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
    state: () => ({ documents: DOCUMENTS, workloads: { set: [], deleted: [], services: [] } }),
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
