/** The webhooks as an API server calls them: over TLS, answered by the real worker. */
import assert from 'node:assert/strict';
import { Agent } from 'node:https';
import { before, test } from 'node:test';
import type { AnyResource } from '../../resources/index.ts';
import { type TestCertificate, testCertificate } from '../testing/certificate.ts';
import { call, documentReview, podReview, startWebhooks, VALID_DOCUMENT } from '../testing/webhook-client.ts';

let certificate: TestCertificate;
before(() => {
  certificate = testCertificate('one.test');
});

const INVALID_DOCUMENT = { ...VALID_DOCUMENT, spec: { hosts: 'web' } };

test('a review is answered in the version in which it is asked', async (t) => {
  const { port } = await startWebhooks(t, certificate);
  for (const apiVersion of ['admission.k8s.io/v1', 'admission.k8s.io/v1beta1']) {
    const { status, headers, text } = await call(port, '/validate?timeout=10s', {
      body: documentReview(VALID_DOCUMENT).replace('admission.k8s.io/v1', apiVersion),
    });
    assert.equal(status, 200, text);
    assert.equal(headers['content-type'], 'application/json');
    const answer = { apiVersion, kind: 'AdmissionReview', response: { uid: 'c0ffee', allowed: true } };
    assert.deepEqual(JSON.parse(text), answer);
  }
});

test('a dry run of an API server is told what the document would do, and nobody else', async (t) => {
  const asked: string[] = [];
  const effectOf = (document: AnyResource) => {
    asked.push(document.meta.name);
    return Promise.resolve('touches 7 proxies');
  };
  const rankOf = (address: string) => (address === '127.0.0.1' ? 'api-server' : 'unknown');
  const { port } = await startWebhooks(t, certificate, { server: { effectOf, rankOf } });
  const warnings = async (more: object, localAddress = '127.0.0.1') => {
    const review = JSON.parse(documentReview(VALID_DOCUMENT));
    const body = JSON.stringify({ ...review, request: { ...review.request, ...more } });
    const { status, text } = await call(port, '/validate', { body, localAddress });
    assert.equal(status, 200, text);
    return JSON.parse(text).response.warnings;
  };
  assert.deepEqual(await warnings({ dryRun: true }), ['touches 7 proxies']);
  assert.equal(await warnings({}), undefined);
  assert.equal(await warnings({ dryRun: true }, '127.0.0.9'), undefined);
  assert.deepEqual(asked, ['web']);
});

test('a document with problems is refused with a message for its author', async (t) => {
  const { port } = await startWebhooks(t, certificate);
  const { text } = await call(port, '/validate', { body: documentReview(INVALID_DOCUMENT) });
  const { response } = JSON.parse(text);
  assert.equal(response.allowed, false);
  assert.equal(response.status.code, 422);
  assert.match(response.status.message, /VirtualService shop\/web: spec\.hosts: /);
});

const REFUSED: readonly (readonly [what: string, path: string, options: Parameters<typeof call>[2], status: number])[] =
  [
    ['an unknown path', '/mutate', {}, 404],
    ['a path below validation', '/validate/x', {}, 404],
    ['an unknown parameter of injection', '/inject/zone/a', {}, 400],
    ['a repeated parameter', '/inject/cluster/a/cluster/b', {}, 400],
    ['a parameter without a value', '/inject/net', {}, 400],
    ['another method', '/validate', { method: 'GET' }, 405],
    ['another content type', '/validate', { headers: { 'content-type': 'application/yaml' } }, 415],
    ['no content type', '/validate', { headers: { 'content-type': '' } }, 415],
    ['a compressed body', '/validate', { headers: { 'content-encoding': 'gzip' } }, 415],
    ['an empty body', '/validate', {}, 400],
  ];

test('requests that are not reviews are refused with a status and one line', async (t) => {
  const { port, lines } = await startWebhooks(t, certificate);
  for (const [what, path, options, status] of REFUSED) {
    const answer = await call(port, path, options);
    assert.equal(answer.status, status, `${what}: ${answer.text}`);
    assert.match(answer.text, /^[^\n]+\n$/, what);
  }
  assert.equal(lines.length, REFUSED.length);
});

test('a Pod gets its sidecar by a patch', async (t) => {
  const { port } = await startWebhooks(t, certificate);
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec: { containers: [{ name: 'app' }] } };
  const { status, text } = await call(port, '/inject/cluster/east/net/n1', { body: podReview(pod) });
  assert.equal(status, 200, text);
  const { response } = JSON.parse(text);
  assert.equal(response.allowed, true);
  assert.equal(response.patchType, 'JSONPatch');
  const patch = JSON.parse(Buffer.from(response.patch, 'base64').toString());
  const added = JSON.stringify(patch);
  for (const expected of ['mesh-proxy', '"east"', '"n1"']) assert.ok(added.includes(expected), `${expected}: ${added}`);
});

test('other objects than Pods, and Pods that are not being created, are not changed', async (t) => {
  const { port } = await startWebhooks(t, certificate);
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec: { containers: [{ name: 'app' }] } };
  for (const request of [
    { operation: 'UPDATE' },
    { operation: 'DELETE', object: null, oldObject: pod },
    { subResource: 'ephemeralcontainers' },
    { kind: { group: 'apps', version: 'v1', kind: 'Deployment' } },
  ]) {
    const { text } = await call(port, '/inject', { body: podReview(pod, request) });
    assert.deepEqual(JSON.parse(text).response, { uid: 'c0ffee', allowed: true });
  }
});

test('a Pod is refused, not admitted as it is, while injection has no usable settings', async (t) => {
  const { port, pool } = await startWebhooks(t, certificate);
  pool.use(undefined);
  const { status, text } = await call(port, '/inject', { body: podReview({ metadata: {}, spec: {} }) });
  assert.equal(status, 200, 'a failed review would admit the Pod with failurePolicy Ignore');
  const { response } = JSON.parse(text);
  assert.deepEqual([response.allowed, response.status.code], [false, 500]);
  assert.match(response.status.message, /^sidecar injection failed: injection has no usable settings; /);
  const other = await call(port, '/validate', { body: documentReview(VALID_DOCUMENT) });
  assert.equal(other.status, 200, 'validation needs none');
});

test('a renewed certificate is used for new connections, and requests on the others are answered', async (t) => {
  const { port, renew } = await startWebhooks(t, certificate);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  const ask = (own: Agent | false, { ca }: TestCertificate, servername: string) =>
    call(port, '/validate', {
      body: documentReview(VALID_DOCUMENT),
      agent: own,
      rejectUnauthorized: true,
      ca,
      servername,
    });
  assert.equal((await ask(agent, certificate, 'one.test')).status, 200);
  const next = testCertificate('two.test');
  renew(next);
  assert.equal((await ask(agent, certificate, 'one.test')).status, 200);
  assert.equal((await ask(false, next, 'two.test')).status, 200);
});

test('requests in progress are answered before the server closes', async (t) => {
  const { port, close } = await startWebhooks(t, certificate);
  const answers = Array.from({ length: 20 }, () => call(port, '/validate', { body: documentReview(VALID_DOCUMENT) }));
  await Promise.any(answers);
  await close();
  const done = await Promise.allSettled(answers);
  for (const result of done) {
    if (result.status === 'fulfilled') assert.equal(result.value.status, 200);
    else assert.match(String(result.reason), /ECONNREFUSED|ECONNRESET|socket hang up|before secure TLS/);
  }
  await assert.rejects(call(port, '/ready', { method: 'GET' }), /ECONNREFUSED/);
});
