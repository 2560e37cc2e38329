/** Malformed and hostile requests to the webhooks, over TLS and answered by the real worker; others are served meanwhile. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { after, before, type TestContext, test } from 'node:test';
import { connect } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { type TestCertificate, testCertificate } from '../testing/certificate.ts';
import { GREEDY } from '../testing/greedy.ts';
import {
  call,
  documentReview,
  podReview,
  review,
  type StartedWebhooks,
  startWebhooks,
  VALID_DOCUMENT,
} from '../testing/webhook-client.ts';
import { MAX_BODY_BYTES } from './bodies.ts';

let certificate: TestCertificate;
/** With the default options, for all tests of bodies: its threads load their code once. */
let common: StartedWebhooks;
before(async () => {
  certificate = testCertificate('one.test');
  common = await startWebhooks({ after: () => {} }, certificate);
});
after(() => common.close());

const POD = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec: { containers: [{ name: 'app' }] } };

/** Others get their answers. */
async function assertServed(port: number): Promise<void> {
  const { status, text } = await call(port, '/validate', { body: documentReview(VALID_DOCUMENT) });
  assert.deepEqual([status, JSON.parse(text).response.allowed], [200, true]);
}

const good = JSON.parse(podReview(POD));
const withRequest = (fields: object): string => JSON.stringify({ ...good, request: { ...good.request, ...fields } });

const UNREADABLE: Readonly<Record<string, string | Uint8Array>> = {
  'an empty object': '{}',
  'a list': '[]',
  null: 'null',
  'a text': '"AdmissionReview"',
  'half of a review': podReview(POD).slice(0, 200),
  'two reviews': podReview(POD).repeat(2),
  'no UTF-8': Buffer.concat([Buffer.from(podReview(POD)).subarray(0, 100), Buffer.of(0xff, 0xfe)]),
  'another version': podReview(POD).replace('admission.k8s.io/v1', 'admission.k8s.io/v2'),
  'another kind': podReview(POD).replace('AdmissionReview', 'Pod'),
  'no request': JSON.stringify({ ...good, request: undefined }),
  'a request that is null': JSON.stringify({ ...good, request: null }),
  'a request that is a list': JSON.stringify({ ...good, request: [good.request] }),
  'a uid that is a number': withRequest({ uid: 7 }),
  'no uid': withRequest({ uid: undefined }),
  'an empty uid': withRequest({ uid: '' }),
  'a uid of 1 MB': withRequest({ uid: 'x'.repeat(1_000_000) }),
  'an unknown operation': withRequest({ operation: 'create' }),
  'an operation that is a list': withRequest({ operation: ['CREATE'] }),
  'no kind': withRequest({ kind: undefined }),
  'a kind that is a text': withRequest({ kind: 'Pod' }),
  'a namespace that is an object': withRequest({ namespace: {} }),
  'a name that is a number': withRequest({ name: 1 }),
  'dryRun that is a text': withRequest({ dryRun: 'true' }),
  'lists, 100,000 levels deep': '['.repeat(100_000),
  'objects, 100,000 levels deep': '{"a":'.repeat(100_000),
  'an object with 2,000,000 empty objects': withRequest({ object: '?' }).replace('"?"', `[${'{},'.repeat(2e6)}{}]`),
  'an object, 1,000,000 levels deep': withRequest({ object: '?' }).replace('"?"', '['.repeat(1e6) + ']'.repeat(1e6)),
};

test('a body that is not a review is refused with HTTP 400 and one line', async () => {
  const { port } = common;
  for (const [what, body] of Object.entries(UNREADABLE))
    for (const path of ['/inject', '/validate']) {
      const { status, text } = await call(port, path, { body });
      assert.equal(status, 400, `${what}: ${text}`);
      assert.match(text, /^[^\n]{1,2000}\n$/, what);
    }
  await assertServed(port);
});

/** Objects of reviews that are readable: no Pod and no document of the mesh is admitted in these forms. */
const OBJECTS: Readonly<Record<string, unknown>> = {
  null: null,
  'a text': 'Pod',
  'a list': [POD],
  'no metadata or spec': {},
  'null everywhere': { apiVersion: 'v1', kind: 'Pod', metadata: null, spec: null },
  'lists for objects': { apiVersion: 'v1', kind: 'Pod', metadata: [], spec: [] },
  'strings for lists': { ...POD, spec: { containers: 'app' } },
  'null containers': { ...POD, spec: { containers: [null] } },
  'annotations that are numbers': { ...POD, metadata: { annotations: { 'sidecar.mesh.io/inject': 1 } } },
};

test('objects of wrong types are refused or left as they are, without an internal error', async () => {
  const { port, lines } = common;
  const earlier = lines.length;
  for (const [what, object] of Object.entries(OBJECTS))
    for (const path of ['/inject', '/validate']) {
      const { status, text } = await call(port, path, { body: podReview(object as object) });
      assert.equal(status, 200, `${what}: ${text}`);
      const { response } = JSON.parse(text);
      assert.notEqual(response.status?.code, 500, `${what}: ${text}`);
    }
  assert.deepEqual(lines.slice(earlier), []);
});

test('the key __proto__ is refused, and the last value of a repeated key is used', async () => {
  const { port } = common;
  const marked = { ...POD, metadata: { name: 'web', labels: { mark: 'x' } } };
  for (const key of ['"__proto__"', '"\\u005f_proto__"']) {
    const body = podReview(marked).replace('"mark"', key);
    const { response } = JSON.parse((await call(port, '/inject', { body })).text);
    assert.equal(response.allowed, false);
    assert.match(response.status.message, /^metadata\.labels: unknown key "__proto__"$/);
  }
  const repeated = documentReview(VALID_DOCUMENT).replace('"spec":{', '"spec":{"hosts":7,');
  const { response } = JSON.parse((await call(port, '/validate', { body: repeated })).text);
  assert.equal(response.allowed, true);
});

test('names of any characters are answered', async () => {
  const { port } = common;
  for (const name of ['שלום', '名前', '\u{1f600}', '\u202egnp', 'a\u0000b', 'a\nb', '\ud800', '"}]{["'])
    for (const path of ['/inject', '/validate']) {
      const body = podReview({ ...POD, metadata: { name, labels: { [name]: name } } }, { name });
      const { status, text } = await call(port, path, { body });
      assert.equal(status, 200, `${JSON.stringify(name)}: ${text}`);
      assert.equal(JSON.parse(text).response.uid, 'c0ffee');
    }
});

test('large objects are answered: 10,000 containers, 1 MB of an annotation', async () => {
  const { port } = common;
  const containers = Array.from({ length: 10_000 }, (_, index) => ({ name: `c${index}`, image: 'a' }));
  const annotated = { ...POD, metadata: { name: 'web', annotations: { notes: 'x'.repeat(1_000_000) } } };
  for (const pod of [{ ...POD, spec: { containers } }, annotated]) {
    const { status, text } = await call(port, '/inject', { body: podReview(pod) });
    assert.equal(status, 200, text.slice(0, 200));
    assert.equal(JSON.parse(text).response.allowed, true, text.slice(0, 200));
  }
});

test('the time for a review grows with its size only: 200,000 labels, a name of a million dashes', async (t) => {
  const { port } = await startWebhooks(t, certificate, { pool: { taskTimeoutMs: 60_000 } });
  const labels = Object.fromEntries(Array.from({ length: 200_000 }, (_, index) => [`l${200_000 - index}`, 'x']));
  const labelled = { ...VALID_DOCUMENT, metadata: { ...VALID_DOCUMENT.metadata, labels } };
  const answer = await call(port, '/validate', { body: documentReview(labelled) });
  assert.equal(answer.status, 200, answer.text);
  const named = { ...POD, metadata: { generateName: `${'-'.repeat(1_000_000)}a` } };
  const { status, text } = await call(port, '/inject', { body: podReview(named) });
  assert.equal(status, 200, text.slice(0, 200));
  assert.equal(JSON.parse(text).response.patchType, 'JSONPatch');
});

test('a Pod with more values than any has is refused before it is read', async () => {
  const { port } = common;
  const pod = {
    ...POD,
    metadata: { labels: Object.fromEntries(Array.from({ length: 60_000 }, (_, i) => [`l${i}`, 'x'])) },
  };
  const { status, text } = await call(port, '/inject', { body: podReview(pod) });
  assert.deepEqual([status, text], [400, 'the body has more than 50000 values\n']);
});

test('bodies over the limit are refused, with a length and without', async () => {
  const { port } = common;
  const body = ' '.repeat(MAX_BODY_BYTES + 1);
  for (const headers of [{ 'content-length': String(body.length) }, { 'transfer-encoding': 'chunked' }]) {
    // The connection may be closed before the client has sent everything and read the answer.
    const answer = await call(port, '/validate', { body, headers }).catch((error: NodeJS.ErrnoException) => error.code);
    if (typeof answer === 'object') assert.equal(answer.status, 413);
    else assert.match(String(answer), /EPIPE|ECONNRESET/);
    await assertServed(port);
  }
});

async function opened(t: TestContext, socket: Socket, event: string): Promise<Socket> {
  socket.on('error', () => {});
  t.after(() => socket.destroy());
  await once(socket, event);
  return socket;
}

test('500 connections that send half a request each do not keep others from being served', async (t) => {
  const { port } = await startWebhooks(t, certificate, { server: { maxConnections: 512, headersTimeoutMs: 60_000 } });
  const head =
    'POST /validate HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n{';
  for (let batch = 0; batch < 10; batch++)
    await Promise.all(
      Array.from({ length: 50 }, async () => {
        const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
        (await opened(t, socket, 'secureConnect')).write(head);
      }),
    );
  for (let times = 0; times < 5; times++) await assertServed(port);
});

test('a connection without a TLS handshake, or with half of one, is closed after a timeout', async (t) => {
  const { port } = await startWebhooks(t, certificate, { server: { headersTimeoutMs: 100 } });
  const hello = Buffer.of(22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3);
  for (const first of [Buffer.alloc(0), hello]) {
    const socket = await opened(t, connectTcp({ port, host: '127.0.0.1' }), 'connect');
    socket.resume();
    if (first.length > 0) socket.write(first);
    if (!socket.destroyed) await once(socket, 'close');
  }
  const plain = await opened(t, connectTcp({ port, host: '127.0.0.1' }), 'connect');
  plain.resume();
  plain.write('GET /ready HTTP/1.1\r\nhost: a\r\n\r\n');
  await once(plain, 'close');
  await assertServed(port);
});

test('a review whose worker is killed is repeated, once', async (t) => {
  const { port, pool, lines } = await startWebhooks(t, certificate);
  const kill = async (): Promise<void> => {
    while (pool.threads.inject.length === 0) await new Promise((resolve) => setImmediate(resolve));
    await pool.threads.inject[0]?.terminate();
  };
  // The thread is still loading its code.
  const [answer] = await Promise.all([call(port, '/inject', { body: podReview(POD) }), kill()]);
  assert.equal(answer.status, 200, answer.text);
  assert.equal(JSON.parse(answer.text).response.patchType, 'JSONPatch');
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? '', /^crash: /);
  await assertServed(port);
});

test('a review that needs too much memory (simulated) is refused and not repeated, and others are answered', async (t) => {
  const workerFile = fileURLToPath(new URL('../testing/greedy-worker.ts', import.meta.url));
  const { port, lines } = await startWebhooks(t, certificate, { pool: { taskTimeoutMs: 60_000, workerFile } });
  const greedy = { ...VALID_DOCUMENT, metadata: { ...VALID_DOCUMENT.metadata, name: GREEDY } };
  const { status, text } = await call(port, '/validate', { body: documentReview(greedy) });
  assert.deepEqual([status, text], [500, 'the review needs too much memory\n']);
  assert.equal(lines.filter((line) => line.startsWith('crash: ')).length, 1);
  await assertServed(port);
});

test('a full queue refuses with Retry-After, and one caller leaves a part of it to others', async (t) => {
  const { port } = await startWebhooks(t, certificate, { pool: { maxWaiting: 4 } });
  const answers = await Promise.all(
    Array.from({ length: 30 }, () => call(port, '/validate', { body: documentReview(VALID_DOCUMENT) })),
  );
  const refused = answers.filter(({ status }) => status === 503);
  assert.ok(refused.length > 0);
  for (const { headers } of refused) assert.equal(headers['retry-after'], '1');
  assert.ok(answers.some(({ status }) => status === 200));
  const other = await call(port, '/validate', { body: review({ kind: {} }), localAddress: '127.0.0.9' });
  assert.equal(other.status, 200);
});
