/** Certificates in directories, and the token's file. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, readlink, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type FakeClock, fakeClock } from '../../core/testing/fake-clock.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { readCertFiles, writeCertFiles } from './cert-files.ts';
import { secretsOf } from './certificates.ts';
import { createMountedSource } from './mounted.ts';
import { type CertificateSet, certificateSet, testRoot } from './testing/certificates.ts';
import { logLines } from './testing/log-lines.ts';
import { currentToken, tokenFileOf } from './token.ts';

const NAME = 'spiffe://cluster.local/ns/default/sa/web';
const root = testRoot('files');

async function folder(context: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'certs-'));
  context.after(() => rm(path, { recursive: true }));
  return path;
}

async function put(directory: string, { key, leaf, root }: CertificateSet): Promise<void> {
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'cert-chain.pem'), leaf);
  await writeFile(join(directory, 'key.pem'), key);
  await writeFile(join(directory, 'root-cert.pem'), root);
}

/** Mounts a secret like an orchestrator: the files are links through `..data`, which is swapped. */
async function mount(directory: string, version: string, set: CertificateSet): Promise<void> {
  await put(join(directory, version), set);
  await symlink(version, join(directory, '..new'));
  await rename(join(directory, '..new'), join(directory, '..data'));
}

/** Reading files takes real time: advances the fake clock until `done`. */
function until(clock: FakeClock, done: () => boolean): Promise<void> {
  return waitUntil(done, { step: () => clock.advance(1_000) });
}

test('mounted certificates are followed over three swaps of links, even when old ones are deleted', async (context) => {
  const directory = await folder(context);
  for (const name of ['cert-chain.pem', 'key.pem', 'root-cert.pem']) {
    await symlink(join('..data', name), join(directory, name));
  }
  await mount(directory, '..v0', certificateSet(root, NAME, 3_600_000_000));
  const clock = fakeClock({ start: Date.now() });
  const source = createMountedSource(directory, clock, logLines());
  const keys = new Set<string>();
  source.onChange(({ certificate }) => keys.add(certificate.key));
  source.start();
  await until(clock, () => keys.size === 1);
  for (const version of [1, 2, 3]) {
    await mount(directory, `..v${version}`, certificateSet(root, NAME, 3_600_000_000));
    await rm(join(directory, `..v${version - 1}`), { recursive: true });
    await until(clock, () => keys.size === version + 1);
  }
  await source.close();
  assert.deepEqual(clock.pending(), []);
});

/** In one step: reading an empty file would be another problem than a pair that does not fit. */
async function replaceFile(path: string, text: string): Promise<void> {
  await writeFile(`${path}.new`, text);
  await rename(`${path}.new`, path);
}

test('half-written pairs leave the last good ones in force, and each is reported once', async (context) => {
  const directory = await folder(context);
  const clock = fakeClock({ start: Date.now() });
  const log = logLines();
  await put(directory, certificateSet(root, NAME, 3_600_000_000));
  const source = createMountedSource(directory, clock, log);
  source.start();
  await until(clock, () => source.current() !== undefined);
  const warnings = (): number => log.lines.filter((line) => line.startsWith('warn')).length;
  for (const round of [1, 2, 3]) {
    const before = source.current();
    const next = certificateSet(root, NAME, 3_600_000_000);
    await replaceFile(join(directory, 'cert-chain.pem'), next.leaf);
    await until(clock, () => warnings() === round);
    await clock.advance(60_000);
    assert.equal(source.current(), before);
    await replaceFile(join(directory, 'key.pem'), next.key);
    await until(clock, () => source.current() !== before);
    assert.equal(source.current()?.certificate.key, next.key);
  }
  assert.equal(warnings(), 3);
  await source.close();
});

test('missing files are used as soon as they exist', async (context) => {
  const directory = await folder(context);
  const clock = fakeClock({ start: Date.now() });
  const log = logLines();
  const source = createMountedSource(join(directory, 'later'), clock, log);
  source.start();
  await until(clock, () => log.lines.length > 0);
  assert.match(log.lines[0] ?? '', /^warn the mounted certificates cannot be used: .*there is no such file$/);
  await put(join(directory, 'later'), certificateSet(root, NAME, 3_600_000_000));
  await until(clock, () => source.current() !== undefined);
  await source.close();
});

test('written files can be read, replace earlier ones, and leave no temporary files', async (context) => {
  const directory = join(await folder(context), 'out');
  // Provisioned as regular files, which the first write replaces.
  await put(directory, certificateSet(root, NAME));
  for (let round = 0; round < 3; round++) {
    const set = certificateSet(root, NAME);
    const secrets = secretsOf(set.key, [set.leaf], set.root, Date.now());
    await writeCertFiles(directory, secrets);
    assert.deepEqual(await readCertFiles(directory, Date.now()), secrets);
    assert.equal((await stat(join(directory, 'key.pem'))).mode & 0o777, 0o600);
    assert.equal((await stat(join(directory, 'cert-chain.pem'))).mode & 0o777, 0o644);
    const names = await readdir(directory);
    assert.equal(names.length, 5, names.join(' '));
  }
});

test('a reader never sees files of two sets', async (context) => {
  const directory = await folder(context);
  const sets = [1, 2].map(() => {
    const set = certificateSet(root, NAME);
    return secretsOf(set.key, [set.leaf], set.root, Date.now());
  });
  let writing = true;
  const [first] = sets;
  assert.ok(first !== undefined);
  await writeCertFiles(directory, first);
  const writer = (async () => {
    for (let round = 0; round < 20; round++) for (const secrets of sets) await writeCertFiles(directory, secrets);
    writing = false;
  })();
  const valid = new Set(sets.map(({ certificate }) => certificate.key + certificate.chain));
  let reads = 0;
  while (writing) {
    const link = join(directory, await readlink(join(directory, '..data')));
    // The set of the link may have been deleted since, but is never incomplete.
    const pair = await Promise.all([
      readFile(join(link, 'key.pem'), 'utf8'),
      readFile(join(link, 'cert-chain.pem'), 'utf8'),
    ]).catch(() => undefined);
    if (pair !== undefined) assert.ok(valid.has(pair.join('')), 'files of one set');
    reads++;
  }
  await writer;
  assert.ok(reads > 0);
});

const jwt = (claims: unknown): string => `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.c2ln`;
const NOW = Date.parse('2030-01-01T00:00:00Z');
const IN_TIME = jwt({ exp: NOW / 1000 + 60 });
const ENDED = jwt({ exp: NOW / 1000 - 60 });

for (const [what, content, parse, expected] of [
  ['a token in time', `${IN_TIME}\n`, true, IN_TIME],
  ['a token without end', jwt({}), true, jwt({})],
  ['an ended token', ENDED, true, /the token in \/t expired at 2029-12-31T23:59:00.000Z/],
  ['an ended token that is not looked at', ENDED, false, ENDED],
  ['an opaque token', 'abc', true, /is not a JWT \(SKIP_PARSE_TOKEN=true sends others\)/],
  ['an opaque token that is not looked at', 'abc', false, 'abc'],
  ['a claim that is not a time', jwt({ exp: 'soon' }), true, /is not a JWT/],
  ['an empty file', ' \n', false, /is empty/],
  ['several lines', 'a\r\nb: c', false, /is malformed/],
  ['an endless file', 'a'.repeat(100_000), false, /is malformed/],
] as const) {
  test(`token: ${what}`, async () => {
    const token = currentToken({ file: '/t', parse, read: () => Promise.resolve(content) }, NOW);
    if (typeof expected === 'string') assert.equal(await token, expected);
    else await assert.rejects(token, { code: 'unauthenticated', message: expected });
  });
}

test('the token is in the file of JWT_POLICY, unless another file is set', () => {
  assert.equal(tokenFileOf('third-party-jwt', ''), './var/run/secrets/tokens/mesh-token');
  assert.equal(tokenFileOf('first-party-jwt', ''), './var/run/secrets/orchestrator.io/serviceaccount/token');
  assert.equal(tokenFileOf('first-party-jwt', '/x'), '/x');
  assert.throws(() => tokenFileOf('none', ''), { code: 'invalid_argument', location: { field: 'JWT_POLICY' } });
});
