import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { fastClock } from '../../kubernetes/testing/fast-clock.ts';
import { ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { envoy } from '../../protobuf/index.ts';
import { createGatewaySecrets, podAccess } from './gateway-secrets.ts';
import { certificateSet, testRoot } from './testing/certificates.ts';
import { logLines } from './testing/log-lines.ts';

const { Secret } = envoy.extensions.transport_sockets.tls.v3;
const PATH = '/api/v1/secrets';
const root = testRoot('clients');
const make = () => certificateSet(testRoot('end users'), 'a.example');

async function setting(context: TestContext) {
  const server = await ScriptedApiServer.start();
  server.serve(PATH);
  const log = logLines();
  const unwanted = new Set<string>();
  let changes = 0;
  const secrets = createGatewaySecrets({
    namespace: 'edge',
    access: server.access({ token: 'own' }),
    clock: fastClock(100),
    random: () => 0,
    log,
    changed: () => void changes++,
    isWanted: (name) => !unwanted.has(name),
  });
  context.after(async () => {
    await secrets.close();
    await server.stop();
  });
  const set = (name: string, entries: Readonly<Record<string, string>>, type = 'Opaque', namespace = 'edge') => {
    const data = Object.fromEntries(
      Object.entries(entries).map(([entry, text]) => [entry, Buffer.from(text).toString('base64')]),
    );
    server.set(PATH, { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace }, type, data });
  };
  /** The contents of the served secrets by name. */
  const served = () =>
    Object.fromEntries(
      [...secrets.current()].map(({ name, bytes }) => {
        const { tlsCertificate, validationContext } = Secret.decode(bytes);
        const parts = [
          tlsCertificate?.certificateChain,
          tlsCertificate?.privateKey,
          tlsCertificate?.ocspStaple,
          validationContext?.trustedCa,
          validationContext?.crl,
        ];
        return [name, parts.flatMap((part) => (part?.inlineBytes ? [Buffer.from(part.inlineBytes).toString()] : []))];
      }),
    );
  const logged = (text: RegExp) => waitUntil(() => log.lines.some((line) => text.test(line)));
  return { server, secrets, log, set, served, logged, unwanted, changes: () => changes };
}

test('a key pair is served when its Secret appears, and again when it is replaced; nothing else is read', async (t) => {
  const { server, secrets, log, set, served, logged, changes } = await setting(t);
  const [first, second] = [make(), make()];
  set('other', { cert: first.leaf, key: first.key });
  assert.equal(secrets.follow('kubernetes://web'), true);
  await logged(/kubernetes:\/\/web cannot be used: there is no Secret edge\/web/);
  assert.deepEqual(served(), {});
  set('web', { 'tls.crt': first.leaf, 'tls.key': first.key, 'tls.ocsp-staple': 'staple' }, 'kubernetes.io/tls');
  await waitUntil(() => changes() === 1);
  assert.deepEqual(served(), { 'kubernetes://web': [first.leaf, first.key, 'staple'] });
  // The same content again is not a change.
  set('web', { 'tls.crt': first.leaf, 'tls.key': first.key, 'tls.ocsp-staple': 'staple' }, 'kubernetes.io/tls');
  set('web', { cert: second.leaf, key: second.key });
  await waitUntil(() => changes() === 2);
  assert.deepEqual(served(), { 'kubernetes://web': [second.leaf, second.key] });
  assert.equal(log.lines.filter((line) => line.includes('there is no Secret')).length, 1);
  for (const { path, query, headers } of server.requests) {
    assert.equal(path, '/api/v1/namespaces/edge/secrets');
    assert.equal(query.get('fieldSelector'), 'metadata.name=web');
    assert.equal(headers.authorization, 'Bearer own');
  }
});

test('a broken or deleted Secret leaves the last good version in force', async (t) => {
  const { server, secrets, set, served, logged, changes } = await setting(t);
  const [first, second] = [make(), make()];
  set('web', { cert: first.leaf, key: first.key });
  secrets.follow('kubernetes://web');
  await waitUntil(() => changes() === 1);
  set('web', { cert: second.leaf, key: first.key });
  await logged(
    /Secret edge\/web: key: expected the key of the certificate in cert; the last good version stays in use/,
  );
  server.remove(PATH, { name: 'web', namespace: 'edge' });
  await logged(/there is no Secret edge\/web; the last good version stays in use/);
  assert.deepEqual(served(), { 'kubernetes://web': [first.leaf, first.key] });
  set('web', { cert: second.leaf, key: second.key });
  await waitUntil(() => changes() === 2);
  assert.deepEqual(served(), { 'kubernetes://web': [second.leaf, second.key] });
});

test('authorities come from the Secret with the suffix, else from that of the key pair', async (t) => {
  const { secrets, set, served, changes } = await setting(t);
  const [pair, apart] = [make(), testRoot('apart')];
  set('web', { 'tls.crt': pair.leaf, 'tls.key': pair.key, 'ca.crt': root.pem }, 'kubernetes.io/tls');
  for (const name of ['kubernetes://web', 'kubernetes://web-cacert']) secrets.follow(name);
  await waitUntil(() => Object.keys(served()).length === 2);
  assert.deepEqual(served()['kubernetes://web-cacert'], [root.pem]);
  const before = changes();
  set('web-cacert', { cacert: apart.pem });
  await waitUntil(() => changes() > before);
  assert.deepEqual(served()['kubernetes://web-cacert'], [apart.pem]);
});

test('names of other namespaces and forms are refused', async (t) => {
  const { server, secrets } = await setting(t);
  for (const name of [
    'default',
    'web',
    'kubernetes://',
    'kubernetes://shop/web',
    'kubernetes://edge/web',
    'kubernetes://a%2Fb',
  ])
    assert.equal(secrets.follow(name), false, name);
  assert.equal(server.requests.length, 0);
});

test('a missing right is one line that names it, and the Secret is read as soon as it is granted', async (t) => {
  const { server, secrets, log, set, served, logged } = await setting(t);
  const pair = make();
  set('web', { cert: pair.leaf, key: pair.key });
  let refused = 0;
  server.intercept = (_, stream) => {
    refused++;
    return server.fail(stream, 403, 'Forbidden');
  };
  secrets.follow('kubernetes://web');
  await waitUntil(() => refused >= 4);
  const lines = log.lines.filter((line) => line.includes('edge/web cannot be read'));
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? '', /needs the rights to list and watch secrets in namespace edge: HTTP 403 Forbidden/);
  server.intercept = () => false;
  await waitUntil(() => served()['kubernetes://web'] !== undefined);
  await logged(/edge\/web can be read again/);
});

test('at most 200 names are followed, and those that no stream wants make space', async (t) => {
  const { server, secrets, unwanted, logged } = await setting(t);
  const names = Array.from({ length: 200 }, (_, index) => `kubernetes://web-${index}`);
  for (const name of names) assert.equal(secrets.follow(name), true);
  assert.equal(secrets.follow('kubernetes://more'), false);
  await logged(/not all Secrets are followed: at most 200/);
  await waitUntil(() => server.watches(PATH) === 200);
  for (const name of names.slice(1)) unwanted.add(name);
  await waitUntil(() => server.watches(PATH) === 1);
  assert.equal(secrets.follow('kubernetes://more'), true);
});

test('outside a Pod there is one line', async () => {
  await assert.rejects(podAccess({}), /KUBERNETES_SERVICE_HOST does not name an API server/);
});
