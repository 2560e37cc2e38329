/** The Secret of a self-signed authority in a scripted API server: what is written, refused and restored. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { afterEach, describe, test } from 'node:test';
import { inspect } from 'node:util';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { Connection, KubernetesClient } from '../../kubernetes/index.ts';
import { fastClock } from '../../kubernetes/testing/fast-clock.ts';
import { ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { storeWrites } from '../../kubernetes/testing/writable-objects.ts';
import type { AuthorityState, AuthorityStore } from '../types.ts';
import { createRoot, type Root } from './self-signed-root.ts';
import { createSecretStore } from './store-secret.ts';
import { DAY_MS, makeCa, NOW, rsaKey } from './testing/fixtures.ts';

const SECRETS = '/api/v1/secrets';
const CONFIG_MAPS = '/api/v1/configmaps';
const NAMESPACE = 'mesh-system';

const newRoot = (): Promise<Root> =>
  createRoot({ trustDomain: 'cluster.local', rsaBits: 2048, lifetimeSeconds: 864_000, now: NOW, randomBytes });

const [ONE, TWO, THREE] = (await Promise.all([newRoot(), newRoot(), newRoot()])) as [Root, Root, Root];
const STATE: AuthorityState = { ...ONE, former: [] };
const ROTATING: AuthorityState = {
  ...ONE,
  next: { ...TWO, announcedAt: NOW + 1234 },
  former: [THREE.certificate],
};

const cleanup: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
});

async function setUp() {
  const server = await ScriptedApiServer.start();
  for (const path of [SECRETS, CONFIG_MAPS]) server.serve(path);
  const control = storeWrites(server);
  cleanup.push(() => server.stop());
  const lines: string[] = [];
  const note = (message: string): void => void lines.push(message);
  /** The store of another replica. */
  const replica = (now = NOW): AuthorityStore => {
    const clock = fastClock(50);
    const connection = new Connection({ access: server.access(), clock, random: () => 0, userAgent: 'test' });
    cleanup.push(() => connection.close());
    return createSecretStore({
      client: new KubernetesClient(connection),
      namespace: NAMESPACE,
      now: () => now,
      log: { debug: () => {}, info: note, warn: note, error: note },
    });
  };
  const data = (): Record<string, string> => {
    const secret = server.find(SECRETS, 'mesh-ca-secret', NAMESPACE);
    const values = Object.entries((secret?.data ?? {}) as Record<string, string>);
    return Object.fromEntries(values.map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
  };
  /** Replaces keys of the Secret, as an operator does. */
  const edit = (changes: Readonly<Record<string, string | undefined>>): void => {
    const values = Object.entries({ ...data(), ...changes }).filter((entry): entry is [string, string] => !!entry[1]);
    const encoded = values.map(([key, value]) => [key, Buffer.from(value).toString('base64')]);
    const metadata = { name: 'mesh-ca-secret', namespace: NAMESPACE };
    server.set(SECRETS, { metadata, data: Object.fromEntries(encoded) });
  };
  const writes = (): number => server.requests.filter(({ method }) => method !== 'GET').length;
  return { server, control, replica, lines, data, edit, writes };
}

describe('the Secret of an authority', () => {
  test('has the state in keys of PEM, and another replica reads the same', async () => {
    const { replica, data } = await setUp();
    const one = replica();
    assert.equal(await one.load(), undefined);
    await one.save(ROTATING);
    assert.deepEqual(data(), {
      'ca-cert.pem': ONE.certificate,
      'ca-key.pem': ONE.key,
      'next-cert.pem': TWO.certificate,
      'next-key.pem': TWO.key,
      'next-announced-at': '2026-06-01T00:00:01.234Z',
      'former-certs.pem': THREE.certificate,
    });
    assert.deepEqual(await replica().load(), ROTATING);
    await one.save(STATE);
    assert.deepEqual(Object.keys(data()), ['ca-cert.pem', 'ca-key.pem']);
    assert.deepEqual(await replica().load(), STATE);
  });

  test('is created by one of two replicas that start together', async () => {
    const { replica } = await setUp();
    const [one, two] = [replica(), replica()];
    await Promise.all([one.load(), two.load()]);
    await one.save(STATE);
    await assert.rejects(two.save({ ...TWO, former: [] }), { code: 'already_exists' });
    assert.deepEqual(await two.load(), STATE);
  });

  test('is not overwritten by a replica that has not seen its newest state', async () => {
    const { replica } = await setUp();
    const [one, two] = [replica(), replica()];
    await one.load();
    await one.save(STATE);
    await two.load();
    await one.save(ROTATING);
    await assert.rejects(two.save({ ...TWO, former: [] }), { code: 'already_exists' });
    assert.deepEqual(await two.load(), ROTATING);
  });

  test('is not written when nothing has changed, and keeps what others wrote into it', async () => {
    const { replica, writes, edit, data } = await setUp();
    const one = replica();
    await one.load();
    await one.save(STATE);
    edit({ note: 'of the operator' });
    const state = await one.load();
    const before = writes();
    await one.save(state as AuthorityState);
    assert.equal(writes(), before);
    await one.save(ROTATING);
    assert.equal(data().note, 'of the operator');
  });

  test('does not appear in logs of the store', async () => {
    const { replica, lines } = await setUp();
    const one = replica();
    await one.load();
    await one.save(STATE);
    assert.ok(!inspect(one, { depth: 9, showHidden: true }).includes('PRIVATE KEY'));
    assert.ok(!lines.join().includes('PRIVATE KEY'));
  });
});

const SECOND = ONE.certificate + TWO.certificate;
const EXPIRED = makeCa({ name: 'expired', key: rsaKey(2048), notAfter: NOW - DAY_MS });
const SMALL = makeCa({ name: 'small', key: rsaKey(1024), notAfter: NOW + DAY_MS });
const INTERMEDIATE = makeCa({ name: 'middle', issuer: makeCa({ name: 'root', key: rsaKey(2048) }), key: rsaKey(2048) });

/** Damages, by what the refusal says. */
const DAMAGES: readonly (readonly [string, Readonly<Record<string, string | undefined>>, RegExp])[] = [
  ['no key', { 'ca-key.pem': undefined }, /data\[ca-key\.pem\]: is missing or empty/],
  ['no certificate', { 'ca-cert.pem': undefined }, /data\[ca-cert\.pem\]: is missing or empty/],
  ['text instead of a certificate', { 'ca-cert.pem': 'banana' }, /data\[ca-cert\.pem\]: expected one certificate/],
  ['two certificates', { 'ca-cert.pem': SECOND }, /data\[ca-cert\.pem\]: expected one certificate/],
  ['a foreign key', { 'ca-key.pem': TWO.key }, /data\[ca-key\.pem\]: holds a key that is not the key/],
  ['a key that is cut short', { 'ca-key.pem': ONE.key.slice(0, 200) }, /data\[ca-key\.pem\]: holds a key that cannot/],
  ['a next root without its key', { 'next-cert.pem': TWO.certificate }, /data\[next-key\.pem\]: is missing/],
  [
    'a next root without its time',
    { 'next-cert.pem': TWO.certificate, 'next-key.pem': TWO.key, 'next-announced-at': 'soon' },
    /data\[next-announced-at\]: expected a time/,
  ],
  ['former roots cut short', { 'former-certs.pem': SECOND.slice(0, -60) }, /data\[former-certs\.pem\]: expected/],
  [
    'a root that has expired',
    { 'ca-cert.pem': EXPIRED.certificate, 'ca-key.pem': EXPIRED.key },
    /data\[ca-cert\.pem\]: .* expired on/,
  ],
  [
    'a small key',
    { 'ca-cert.pem': SMALL.certificate, 'ca-key.pem': SMALL.key },
    /data\[ca-cert\.pem\]: has 1024 bits; expected 2048 or more/,
  ],
  [
    'an intermediate',
    { 'ca-cert.pem': INTERMEDIATE.certificate, 'ca-key.pem': INTERMEDIATE.key },
    /data\[ca-cert\.pem\]: is not a self-signed root certificate; .*ROOT_CA_DIR/,
  ],
];

describe('a damaged Secret', () => {
  for (const [what, changes, expected] of DAMAGES) {
    test(`with ${what} is refused, never written, and the last good state is kept`, async () => {
      const { replica, edit, data, writes } = await setUp();
      const one = replica();
      await one.load();
      await one.save(STATE);
      edit(changes);
      const [damaged, before] = [data(), writes()];
      await assert.rejects(one.load({ restore: true }), (error: Error & { oneLine(): string }) => {
        assert.match(error.oneLine(), /^Secret\/mesh-system\/mesh-ca-secret: /);
        assert.match(error.oneLine(), expected);
        return true;
      });
      assert.deepEqual(one.shared?.lastGood(), STATE);
      await assert.rejects(one.save(ROTATING), { code: 'already_exists' });
      assert.deepEqual(data(), damaged);
      assert.equal(writes() - before, 1);
    });
  }

  test('with a root that expired in use is not damaged: the root is replaced', async () => {
    const { replica } = await setUp();
    const one = replica();
    await one.load();
    await one.save(STATE);
    assert.deepEqual(await replica(NOW + 20 * DAY_MS).load(), STATE);
  });
});

describe('a Secret that is missing', () => {
  test('and was loaded before is what it was, and is written again only by the replica that leads', async () => {
    const { server, replica, lines, data } = await setUp();
    const one = replica();
    await one.load();
    await one.save(ROTATING);
    server.remove(SECRETS, { name: 'mesh-ca-secret', namespace: NAMESPACE });
    assert.deepEqual(await one.load(), ROTATING);
    assert.deepEqual(await one.load(), ROTATING);
    assert.deepEqual(data(), {});
    assert.equal(lines.filter((line) => line.includes('was deleted')).length, 1);
    assert.deepEqual(await one.load({ restore: true }), ROTATING);
    assert.equal(data()['ca-key.pem'], ONE.key);
    assert.match(lines.at(-1) ?? '', /written again with the root certificate in force/);
    assert.deepEqual(await replica().load(), ROTATING);
  });

  test('though its root certificates are published is an error, and leads to no new root', async () => {
    const { server, replica } = await setUp();
    const metadata = { name: 'mesh-ca-root-cert', namespace: NAMESPACE };
    server.set(CONFIG_MAPS, { metadata, data: { 'root-cert.pem': ONE.certificate } });
    await assert.rejects(replica().load(), /is missing, though ConfigMap mesh-system\/mesh-ca-root-cert .* restore it/);
  });
});

test('a failure of the API server is an error, and not a missing Secret', async () => {
  const { replica, control } = await setUp();
  control.refuse = () => [403, 'Forbidden'];
  await assert.rejects(replica().load(), /cannot read: HTTP 403/);
  control.refuse = () => [500, 'InternalError'];
  await assert.rejects(replica().load(), /cannot read: HTTP 500/);
});

test('a watch notifies of changes without reading the keys', async () => {
  const { server, replica, edit } = await setUp();
  const one = replica();
  await one.load();
  await one.save(STATE);
  let changes = 0;
  const end = one.shared?.watch(() => changes++);
  await waitUntil(() => changes === 1);
  edit({ note: 'x' });
  await waitUntil(() => changes === 2);
  server.remove(SECRETS, { name: 'mesh-ca-secret', namespace: NAMESPACE });
  await waitUntil(() => changes === 3);
  await end?.();
  const watch = server.requests.find(({ query }) => query.get('watch') === '1');
  assert.match(String(watch?.headers.accept), /as=PartialObjectMetadata/);
  assert.equal(watch?.query.get('fieldSelector'), 'metadata.name=mesh-ca-secret');
});
