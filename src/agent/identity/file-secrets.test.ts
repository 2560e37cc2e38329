import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { CtlError } from '../../core/errors.ts';
import { type FakeClock, fakeClock } from '../../core/testing/fake-clock.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { authoritiesFileName, keyPairFileName, SYSTEM_AUTHORITIES } from '../../core/tls/file-secret-names.ts';
import { envoy } from '../../protobuf/index.ts';
import { createFileSecrets } from './file-secrets.ts';
import { readSystemAuthorities } from './system-authorities.ts';
import { certificateSet, testRoot } from './testing/certificates.ts';
import { logLines } from './testing/log-lines.ts';

const { Secret } = envoy.extensions.transport_sockets.tls.v3;
const root = testRoot('files');
const CRL = '-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n';

async function setting(context: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), 'files-'));
  const clock = fakeClock({ start: Date.now() });
  const log = logLines();
  let changes = 0;
  const unwanted = new Set<string>();
  const files = createFileSecrets(
    clock,
    log,
    () => void changes++,
    (name) => !unwanted.has(name),
    { SSL_CERT_FILE: join(folder, 'system.pem') },
  );
  context.after(async () => {
    await files.close();
    await rm(folder, { recursive: true });
  });
  const at = (name: string) => join(folder, name);
  /** The served secrets by name. */
  const served = () =>
    Object.fromEntries(
      [...files.current()].map(({ name, bytes }) => {
        const { tlsCertificate, validationContext } = Secret.decode(bytes);
        const parts = [
          tlsCertificate?.certificateChain,
          tlsCertificate?.privateKey,
          validationContext?.trustedCa,
          validationContext?.crl,
        ];
        return [name, parts.flatMap((part) => (part?.inlineBytes ? [Buffer.from(part.inlineBytes).toString()] : []))];
      }),
    );
  return { files, clock, log, at, served, unwanted, changes: () => changes };
}

/** Reading files takes real time: advances the fake clock until `done`. */
function until(clock: FakeClock, done: () => boolean): Promise<void> {
  return waitUntil(done, { step: () => clock.advance(1_000) });
}

test('a key pair is served as soon as its files exist, and again when they are replaced', async (context) => {
  const { files, clock, log, at, served, changes } = await setting(context);
  const name = keyPairFileName(at('c.pem'), at('k.pem')) ?? '';
  files.follow(name);
  files.follow(name);
  await until(clock, () => log.lines.length > 0);
  assert.match(log.lines[0] ?? '', /no such file/);
  assert.deepEqual(served(), {});
  const [first, second] = [certificateSet(root, 'a.example'), certificateSet(root, 'a.example')];
  await writeFile(at('k.pem'), first.key);
  await writeFile(at('c.pem'), first.leaf);
  await until(clock, () => changes() === 1);
  assert.deepEqual(served(), { [name]: [first.leaf, first.key] });
  // A partial replacement leaves the last good version in force.
  await writeFile(at('c.pem'), second.leaf);
  await until(clock, () => log.lines.some((line) => line.includes('the key does not match the certificate')));
  assert.deepEqual(served(), { [name]: [first.leaf, first.key] });
  await writeFile(at('k.pem'), second.key);
  await until(clock, () => changes() === 2);
  assert.deepEqual(served(), { [name]: [second.leaf, second.key] });
  await clock.advance(60_000);
  assert.equal(changes(), 2);
});

test('authorities are served with their revocation list', async (context) => {
  const { files, clock, at, served } = await setting(context);
  await writeFile(at('ca.pem'), root.pem);
  await writeFile(at('crl.pem'), CRL);
  const names = [authoritiesFileName(at('ca.pem'), undefined), authoritiesFileName(at('ca.pem'), at('crl.pem'))];
  for (const name of names) files.follow(name ?? '');
  await until(clock, () => Object.keys(served()).length === 2);
  assert.deepEqual(Object.values(served()), [[root.pem], [root.pem, CRL]]);
});

test('authorities of the system are read from the file in the environment, and followed', async (context) => {
  const { files, clock, log, at, served, changes } = await setting(context);
  const name = authoritiesFileName(SYSTEM_AUTHORITIES, undefined) ?? '';
  assert.equal(files.follow(name), true);
  await until(clock, () => log.lines.length > 0);
  assert.match(log.lines[0] ?? '', /file-root:system cannot be used: .*system\.pem: there is no such file/);
  await writeFile(at('system.pem'), root.pem);
  await until(clock, () => changes() === 1);
  assert.deepEqual(served(), { [name]: [root.pem] });
  const next = testRoot('next');
  await writeFile(at('system.pem'), `${root.pem}${next.pem}`);
  await until(clock, () => changes() === 2);
  assert.deepEqual(served(), { [name]: [`${root.pem}${next.pem}`] });
});

test('authorities of the system without the variable are those of the first known file that exists', async () => {
  const readable = new Set<string>();
  const read = (file: string) =>
    readable.has(file)
      ? Promise.resolve(`text of ${file}`)
      : Promise.reject(new CtlError('not_found', 'there is no such file', { file }));
  await assert.rejects(
    readSystemAuthorities(read, {}),
    /SSL_CERT_FILE or one of \/etc\/ssl\/certs\/ca-certificates\.crt/,
  );
  readable.add('/etc/ssl/cert.pem');
  assert.equal((await readSystemAuthorities(read, {})).file, '/etc/ssl/cert.pem');
  readable.add('/etc/pki/tls/certs/ca-bundle.crt');
  assert.equal((await readSystemAuthorities(read, {})).text, 'text of /etc/pki/tls/certs/ca-bundle.crt');
});

test('names of other secrets are ignored, and files without certificates are refused', async (context) => {
  const { files, clock, log, at, served } = await setting(context);
  await writeFile(at('text'), 'no certificate');
  for (const name of ['default', 'ROOTCA', 'kubernetes://x', `file-root:${at('text')}`])
    assert.equal(files.follow(name), name.startsWith('file-root:'), name);
  await until(clock, () => log.lines.length > 0);
  assert.match(log.lines[0] ?? '', /no certificate in/);
  assert.deepEqual(served(), {});
  assert.equal(log.lines.length, 1);
});

test('files that are neither regular nor revocation lists are not served, and do not delay other secrets', {
  timeout: 120_000,
}, async (context) => {
  const { files, clock, log, at, served } = await setting(context);
  await promisify(execFile)('mkfifo', [at('pipe')]);
  await symlink(at('pipe'), at('link'));
  await writeFile(at('token'), 'secret of somebody else');
  await writeFile(at('ca.pem'), root.pem);
  const bad = ['/dev/zero', at('pipe'), at('link'), at('.'), '/dev/stdin'].map((path) =>
    authoritiesFileName(path, undefined),
  );
  for (const name of [...bad, authoritiesFileName(at('ca.pem'), at('token'))]) files.follow(name ?? '');
  const good = authoritiesFileName(at('ca.pem'), undefined) ?? '';
  files.follow(good);
  await until(clock, () => log.lines.length === 6 && Object.keys(served()).length === 1);
  assert.deepEqual(served(), { [good]: [root.pem] });
  assert.equal(log.lines.filter((line) => line.includes('is not a regular file')).length, 5);
  assert.match(log.lines.join(), /no list of revoked certificates/);
  assert.doesNotMatch(log.lines.join(), /secret of somebody/);
  // None of them prevents checks of the others.
  const next = testRoot('next');
  await writeFile(at('ca.pem'), next.pem);
  await until(clock, () => served()[good]?.[0] === next.pem);
});

test('a secret that is no longer requested is dropped, and followed again on request', async (context) => {
  const { files, clock, at, served, unwanted, log } = await setting(context);
  await writeFile(at('ca.pem'), root.pem);
  const good = authoritiesFileName(at('ca.pem'), undefined) ?? '';
  const full = (): string[] => log.lines.filter((line) => /not all certificates in files are followed/.test(line));
  const others = Array.from({ length: 500 }, (_, index) => authoritiesFileName(at(`${index}.pem`), undefined) ?? '');
  for (const name of others) files.follow(name);
  assert.deepEqual(full(), []);
  files.follow(good);
  await clock.advance(60_000);
  assert.deepEqual(served(), {});
  assert.equal(full().length, 1);
  for (const name of others) unwanted.add(name);
  await until(clock, () => {
    files.follow(good);
    return Object.keys(served()).length === 1;
  });
  assert.deepEqual(served(), { [good]: [root.pem] });
  unwanted.add(good);
  await until(clock, () => Object.keys(served()).length === 0);
  unwanted.delete(good);
  files.follow(good);
  await until(clock, () => Object.keys(served()).length === 1);
});
