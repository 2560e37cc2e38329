import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { tempDir } from '../../../test/harness/files.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { workerUrl } from '../../paths.ts';
import type { AuthorityStore } from '../types.ts';
import { type AuthoritySettings, createAuthority } from './authority.ts';
import type { SigningMaterial } from './root-source.ts';
import { createRoot } from './self-signed-root.ts';
import { createSigningPool, type SigningPoolOptions } from './signing-pool.ts';
import { csr, DAY_MS, ecKey, fakeClock, makeCa, memoryStore, NOW } from './testing/fixtures.ts';

const IDENTITY = { trustDomain: 'cluster.local', namespace: 'shop', serviceAccount: 'cart' };
const KEY = ecKey('P-256');
const CSR = csr({ key: KEY });
/** One root for all tests, because creating RSA keys takes long. */
const newRoot = () =>
  createRoot({
    trustDomain: 'cluster.local',
    rsaBits: 2048,
    lifetimeSeconds: (3650 * DAY_MS) / 1000,
    now: NOW,
    randomBytes: (size) => Buffer.alloc(size, 7),
  });
const ROOT = await newRoot();

const SETTINGS: AuthoritySettings = {
  selfSignedCaLifetimeSeconds: 3650 * 86_400,
  selfSignedCaRsaBits: 2048,
  rootCheckIntervalMs: 3_600_000,
  rootGracePercentile: 20,
  rootCheckJitter: false,
  defaultWorkloadCertLifetimeSeconds: 86_400,
  maxWorkloadCertLifetimeSeconds: 90 * 86_400,
  rootCaDir: '/nonexistent',
  selfSignedCaDir: '/nonexistent',
};

async function authority(
  t: TestContext,
  settings: Partial<AuthoritySettings> = {},
  store: AuthorityStore | undefined = memoryStore({ ...ROOT, former: [] }),
  threads = 1,
) {
  const { clock, advance } = fakeClock();
  const events: string[] = [];
  const ca = await createAuthority({
    settings: { ...SETTINGS, ...settings },
    trustDomain: 'cluster.local',
    log: { info: () => {}, error: () => {} },
    observer: {
      csrRefused: () => void events.push('csr refused'),
      signingFailed: () => void events.push('signing failed'),
    },
    ...(settings.selfSignedCaDir === undefined ? { store } : {}),
    clock,
    threads,
  });
  t.after(() => ca.close());
  return { ca, advance, events };
}

test('a workload gets a chain, leaf first, that leads to the root it trusts', async (t) => {
  const { ca } = await authority(t);
  const chain = await ca.sign({ csr: CSR, identity: IDENTITY, lifetimeSeconds: 0 });
  assert.deepEqual(chain.slice(1), ca.trustBundle());
  const leaf = new X509Certificate(chain[0] ?? '');
  assert.equal(leaf.subjectAltName, 'URI:spiffe://cluster.local/ns/shop/sa/cart');
  assert.ok(leaf.verify(new X509Certificate(ca.trustBundle()[0] ?? '').publicKey));
  assert.deepEqual(ca.expiry(), { chain: NOW + 3650 * DAY_MS, root: NOW + 3650 * DAY_MS });
});

const DAY = 86_400;
const MAX = 90 * DAY;
/** Requested and given lifetimes, seconds. */
const LIFETIMES: readonly (readonly [string, number, number | RegExp])[] = [
  ['none', 0, DAY],
  ['negative', -5, DAY],
  ['not a number', Number.NaN, DAY],
  ['an hour', 3600, 3600],
  ['the maximum', MAX, MAX],
  ['over the maximum', MAX + 1, /at most 7776000 s are allowed \(MAX_WORKLOAD_CERT_TTL\)/],
  ['huge', 2 ** 63, /MAX_WORKLOAD_CERT_TTL/],
  ['endless', Number.POSITIVE_INFINITY, /MAX_WORKLOAD_CERT_TTL/],
];

test('a requested lifetime is granted up to the maximum, and longer ones are refused and counted', async (t) => {
  const { ca, events } = await authority(t);
  for (const [name, lifetimeSeconds, outcome] of LIFETIMES) {
    const signing = ca.sign({ csr: CSR, identity: IDENTITY, lifetimeSeconds });
    if (outcome instanceof RegExp) await assert.rejects(signing, { code: 'invalid_argument', message: outcome }, name);
    else assert.equal(new X509Certificate((await signing)[0] ?? '').validToDate.getTime(), NOW + outcome * 1000, name);
  }
  assert.deepEqual(events, ['signing failed', 'signing failed', 'signing failed']);
});

test('invalid requests and identities are refused, and invalid requests are counted', async (t) => {
  const { ca, events } = await authority(t);
  await assert.rejects(ca.sign({ csr: 'x', identity: IDENTITY, lifetimeSeconds: 0 }), { code: 'invalid_argument' });
  await assert.rejects(ca.sign({ csr: 'x'.repeat(1e6), identity: IDENTITY, lifetimeSeconds: 0 }), {
    code: 'invalid_argument',
  });
  assert.deepEqual(events, ['csr refused', 'csr refused']);
  const identity = { ...IDENTITY, namespace: 'a/../b' };
  await assert.rejects(ca.sign({ csr: CSR, identity, lifetimeSeconds: 0 }), { code: 'invalid_argument' });
});

test('a server certificate has its key, and a chain without the root', async (t) => {
  const { ca } = await authority(t);
  const { chain, key, expiresAt } = await ca.serverCertificate(['ctl-discovery.mesh-system.svc', '127.0.0.1'], DAY);
  const leaf = new X509Certificate(chain);
  assert.equal(chain.split('BEGIN').length, 2);
  assert.ok(leaf.verify(new X509Certificate(ca.trustBundle()[0] ?? '').publicKey));
  assert.match(key, /BEGIN PRIVATE KEY/);
  assert.equal(expiresAt, NOW + DAY_MS);
  await assert.rejects(ca.serverCertificate([], DAY), { code: 'invalid_argument' });
  await assert.rejects(ca.serverCertificate(['a b'], DAY), { code: 'invalid_argument' });
});

test('without threads, each signature uses the key that is stored at that time', async (t) => {
  const store = memoryStore({ ...ROOT, former: [] });
  const { ca } = await authority(t, {}, store, 0);
  const issuedBy = async (): Promise<X509Certificate> => {
    const { chain } = await ca.serverCertificate(['ctl-discovery.mesh-system.svc'], DAY);
    return new X509Certificate(chain);
  };
  assert.ok((await issuedBy()).verify(new X509Certificate(ROOT.certificate).publicKey));
  await assert.rejects(ca.sign({ csr: 'x', identity: IDENTITY, lifetimeSeconds: 0 }), { code: 'invalid_argument' });
  const next = await newRoot();
  await store.save({ ...next, former: [ROOT.certificate] });
  assert.ok((await issuedBy()).verify(new X509Certificate(next.certificate).publicKey));
  store.failure = new Error('gone');
  await assert.rejects(issuedBy(), { code: 'unavailable', message: /key cannot be read at present/ });
});

test('the self-signed root survives a restart in its directory', async (t) => {
  const selfSignedCaDir = join(await tempDir(t), 'ca');
  const first = await authority(t, { selfSignedCaDir });
  const bundle = first.ca.trustBundle();
  await first.ca.close();
  await assert.rejects(first.ca.sign({ csr: CSR, identity: IDENTITY, lifetimeSeconds: 0 }), { code: 'unavailable' });
  const second = await authority(t, { selfSignedCaDir });
  assert.deepEqual(second.ca.trustBundle(), bundle);
  await assert.rejects(authority(t, { selfSignedCaDir }), { message: /in use by another program/ });
  await second.ca.close();
  assert.equal(await readFile(join(selfSignedCaDir, 'root-cert.pem'), 'utf8'), bundle.join(''));
  await writeFile(join(selfSignedCaDir, 'ca-state.json'), '{');
  await assert.rejects(authority(t, { selfSignedCaDir }), { message: /does not hold a certificate authority's state/ });
});

test('a shared store that cannot be used is tried again, with one line for each reason', async (t) => {
  const time = fakeClock();
  const store = memoryStore({ ...ROOT, former: [] });
  store.failure = new Error('damaged');
  const lines: string[] = [];
  const log = { info: (line: string) => void lines.push(line), error: (line: string) => void lines.push(line) };
  let elected = 0;
  let closed = 0;
  const opening = createAuthority({
    settings: SETTINGS,
    trustDomain: 'cluster.local',
    log,
    store: { ...store, load: () => store.load(), shared: { lastGood: () => undefined, watch: () => async () => {} } },
    elect: () => {
      elected++;
      return { close: async () => void closed++ };
    },
    clock: time.clock,
    threads: 0,
  });
  // Files are looked for first, in real time.
  await waitUntil(() => lines.length > 0);
  await time.advance(60_000);
  assert.equal(elected, 0);
  delete store.failure;
  await time.advance(10_000);
  const ca = await opening;
  t.after(() => ca.close());
  assert.deepEqual(lines, [
    'certificate authority: not ready, because its root certificate cannot be used: damaged',
    'certificate authority: its root certificate can be used',
  ]);
  assert.deepEqual(ca.trustBundle(), [ROOT.certificate]);
  await ca.close();
  assert.deepEqual([elected, closed], [1, 1]);
});

test('a plugged-in root is used if there is one, and an invalid one is an error at startup', async (t) => {
  const rootCaDir = await tempDir(t);
  const root = makeCa({ name: 'plugged' });
  await mkdir(rootCaDir, { recursive: true });
  await writeFile(join(rootCaDir, 'ca-key.pem'), root.key);
  await assert.rejects(authority(t, { rootCaDir }), { message: 'is missing' });
  await writeFile(join(rootCaDir, 'ca-cert.pem'), root.certificate);
  await writeFile(join(rootCaDir, 'root-cert.pem'), root.certificate);
  const { ca } = await authority(t, { rootCaDir });
  assert.deepEqual(ca.trustBundle(), [root.certificate]);
  assert.deepEqual((await ca.sign({ csr: CSR, identity: IDENTITY, lifetimeSeconds: 0 })).slice(1), [root.certificate]);
});

test('invalid settings are refused with the name of their variable', async (t) => {
  for (const [settings, field] of [
    [{ selfSignedCaRsaBits: 1024 }, 'CA_SELF_SIGNED_CA_RSA_KEY_SIZE'],
    [{ rootGracePercentile: 101 }, 'CA_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE'],
    [{ defaultWorkloadCertLifetimeSeconds: 91 * 86_400 }, 'DEFAULT_WORKLOAD_CERT_TTL'],
  ] as const)
    await assert.rejects(authority(t, settings), { code: 'invalid_argument', location: { field } });
});

const MATERIAL: SigningMaterial = { ...ROOT, path: [ROOT.certificate], chainEnd: NOW + 3650 * DAY_MS };
const JOB = {
  kind: 'workload',
  csr: CSR,
  uri: 'spiffe://d/ns/a/sa/b',
  lifetimeSeconds: DAY_MS / 1000,
  now: NOW,
} as const;

function pool(t: TestContext, options: Partial<SigningPoolOptions> = {}) {
  let reloads = 0;
  const crashes: unknown[] = [];
  const made = createSigningPool({
    workerFile: fileURLToPath(workerUrl('sign')),
    threads: 1,
    material: MATERIAL,
    reload: async () => {
      reloads++;
      return MATERIAL;
    },
    onCrash: (error) => void crashes.push(error),
    ...options,
  });
  t.after(() => made.close());
  return { pool: made, crashes, reloads: () => reloads };
}

test('when a worker is killed, the next one gets the key and repeats its jobs', async (t) => {
  const { pool: signing, reloads } = pool(t);
  await signing.sign(JOB);
  assert.equal(reloads(), 0, 'the first worker has the key that it was given');
  const waiting = Array.from({ length: 100 }, () => signing.sign(JOB));
  await Promise.all(signing.threads.map((thread) => thread.terminate()));
  const signed = await Promise.all(waiting);
  assert.equal(new Set(signed.map(({ certificate }) => certificate)).size, 100);
  assert.equal(reloads(), 1);
});

test('without a readable key, requests are unavailable until there is one', async (t) => {
  let failure: Error | undefined = new Error('EIO');
  const { pool: signing } = pool(t, {
    reload: async () => {
      if (failure) throw failure;
      return MATERIAL;
    },
  });
  await signing.sign(JOB);
  await Promise.all(signing.threads.map((thread) => thread.terminate()));
  // The first request may discover that the worker has died, and is repeated.
  await assert.rejects(signing.sign(JOB), { code: 'unavailable' });
  failure = undefined;
  await signing.sign(JOB);
});

test('requests beyond the capacity of the queue are refused, and the others are answered', async (t) => {
  const { pool: signing } = pool(t, { maxWaiting: 3 });
  const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => signing.sign(JOB)));
  const refused = outcomes.filter((each) => each.status === 'rejected');
  assert.ok(refused.length > 0 && refused.length < 20);
  for (const { reason } of refused) assert.equal(reason.code, 'resource_exhausted');
});

test('an identity with endless requests does not displace or delay those of others', async (t) => {
  const { pool: signing } = pool(t, { maxWaiting: 64 });
  const order: string[] = [];
  const done = (uri: string) => signing.sign({ ...JOB, uri }).then(() => order.push(uri));
  const [greedy, other] = ['spiffe://cluster.local/ns/a/sa/greedy', 'spiffe://cluster.local/ns/a/sa/other'];
  const flood = Promise.allSettled(Array.from({ length: 500 }, () => done(greedy)));
  await Promise.all([done(other), done(other)]);
  const before = order.filter((uri) => uri === greedy).length;
  const refused = (await flood).filter((each) => each.status === 'rejected');
  assert.ok(refused.length > 400);
  for (const { reason } of refused) assert.equal(reason.code, 'resource_exhausted');
  const after = order.filter((uri) => uri === greedy).length;
  assert.ok(before < after / 2, `${before} of ${after} were served first`);
});

test('after a change of the key, the new one signs', async (t) => {
  const { pool: signing, reloads } = pool(t);
  const next = makeCa({ name: 'next' });
  await signing.sign(JOB);
  signing.use({ key: next.key, path: [next.certificate], chainEnd: MATERIAL.chainEnd });
  const signed = await signing.sign(JOB);
  assert.deepEqual(signed.path, [next.certificate]);
  assert.ok(new X509Certificate(signed.certificate).verify(new X509Certificate(next.certificate).publicKey));
  assert.equal(reloads(), 0);
});
