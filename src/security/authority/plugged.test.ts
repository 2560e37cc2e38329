import assert from 'node:assert/strict';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { tempDir } from '../../../test/harness/files.ts';
import type { CtlError } from '../../core/errors.ts';
import { isPlugged } from './plugged-files.ts';
import { openPlugged } from './plugged-source.ts';
import { type Ca, DAY_MS, fakeClock, makeCa, NOW, rsaKey } from './testing/fixtures.ts';

type Files = Readonly<Partial<Record<'ca-cert.pem' | 'ca-key.pem' | 'cert-chain.pem' | 'root-cert.pem', string>>>;

const ROOT = makeCa({ name: 'root', key: rsaKey(2048), notAfter: NOW + 50 * DAY_MS });
const MIDDLE = makeCa({ name: 'middle', issuer: ROOT, notAfter: NOW + 40 * DAY_MS });
const CA = makeCa({ name: 'signing', issuer: MIDDLE, notAfter: NOW + 30 * DAY_MS });

function filesOf(ca: Ca, chain: readonly Ca[], ...roots: readonly Ca[]): Files {
  const pem = (each: readonly Ca[]): string => each.map(({ certificate }) => certificate).join('');
  return {
    'ca-cert.pem': ca.certificate,
    'ca-key.pem': ca.key,
    'cert-chain.pem': pem(chain),
    'root-cert.pem': pem(roots),
  };
}

const GOOD = filesOf(CA, [CA, MIDDLE], ROOT);

async function write(directory: string, files: Files): Promise<void> {
  await mkdir(directory, { recursive: true });
  await Promise.all(Object.entries(files).map(([name, text]) => writeFile(join(directory, name), text)));
}

async function plug(t: TestContext, files: Files) {
  const directory = await tempDir(t);
  await write(directory, files);
  return { directory, ...(await open(t, directory)) };
}

async function open(t: TestContext, directory: string) {
  const changes: (string | undefined)[] = [];
  const problems: string[] = [];
  const time = fakeClock();
  const { source, material } = await openPlugged({
    directory,
    clock: time.clock,
    events: {
      changed: (_roots, next) => void changes.push(next?.path[0]),
      problem: (error) => void problems.push((error as CtlError).oneLine()),
    },
    log: () => {},
  });
  t.after(() => source.close());
  /** Runs a check of the files and waits for its effects: real reads, which a fake clock cannot wait for. */
  const check = async (): Promise<void> => {
    await time.advance(10_000);
    // `material` resolves after the check.
    await source.material().catch(() => {});
  };
  return { source, material, changes, problems, check, time };
}

test('the path leads from the signing certificate to the root, in any order of the chain file', async (t) => {
  const { source, material } = await plug(t, filesOf(CA, [MIDDLE, CA], ROOT));
  assert.deepEqual(material.path, [CA.certificate, MIDDLE.certificate, ROOT.certificate]);
  assert.equal(material.chainEnd, NOW + 30 * DAY_MS);
  assert.deepEqual(source.roots().bundle, [ROOT.certificate]);
  assert.deepEqual(source.roots().ends, { chain: NOW + 30 * DAY_MS, root: NOW + 50 * DAY_MS });
});

test('a self-signed CA needs no chain, and further roots are trusted after its own', async (t) => {
  const other = makeCa({ name: 'other' });
  const { 'cert-chain.pem': _, ...files } = filesOf(ROOT, [], other, ROOT);
  const { source, material } = await plug(t, files);
  assert.deepEqual(material.path, [ROOT.certificate]);
  assert.deepEqual(source.roots().bundle, [ROOT.certificate, other.certificate]);
});

const expiredRoot = makeCa({ name: 'old root', notBefore: NOW - 2 * DAY_MS, notAfter: NOW - DAY_MS });
const notYet = makeCa({ name: 'early', issuer: ROOT, notBefore: NOW + DAY_MS });
const shallow = makeCa({ name: 'shallow root', pathLength: 0 });

const REFUSED: Readonly<Record<string, readonly [Files, RegExp]>> = {
  'no certificate file': [{ 'ca-key.pem': CA.key, 'root-cert.pem': ROOT.certificate }, /ca-cert\.pem: is missing/],
  'no root file': [{ 'ca-key.pem': CA.key, 'ca-cert.pem': CA.certificate }, /root-cert\.pem: is missing/],
  'half a certificate': [
    { ...GOOD, 'ca-cert.pem': CA.certificate.slice(0, 200) },
    /ca-cert\.pem: holds no certificate/,
  ],
  'a damaged certificate': [
    { ...GOOD, 'root-cert.pem': '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n' },
    /root-cert\.pem: holds a certificate that cannot be read/,
  ],
  'something else than a key': [
    { ...GOOD, 'ca-key.pem': 'secret' },
    /ca-key\.pem: does not hold an unencrypted private key/,
  ],
  'the key of another certificate': [
    { ...GOOD, 'ca-key.pem': ROOT.key },
    /ca-key\.pem: is not the key .* ca-cert\.pem/,
  ],
  'no root in the root file': [filesOf(CA, [MIDDLE]), /root-cert\.pem: holds no certificate/],
  'a weak key': [((weak) => filesOf(weak, [], weak))(makeCa({ name: 'weak', key: rsaKey(1024) })), /has 1024 bits/],
  'a chain with a gap': [filesOf(CA, [CA], ROOT), /root-cert\.pem: the chain is broken.*signing/],
  'a chain to another root': [filesOf(CA, [MIDDLE], makeCa({ name: 'root' })), /the chain is broken.*middle/],
  'an expired root': [filesOf(expiredRoot, [], expiredRoot), /root-cert\.pem: .*old root expired on 2026-05-31/],
  'a certificate of the future': [filesOf(notYet, [], ROOT), /ca-cert\.pem: .*early is not valid before 2026-06-02/],
  'a certificate that is no CA': [
    filesOf(makeCa({ name: 'leaf', issuer: ROOT, authority: false }), [], ROOT),
    /ca-cert\.pem: .*leaf is not a CA certificate/,
  ],
  'a CA that may not sign certificates': [
    filesOf(makeCa({ name: 'mute', issuer: ROOT, keyUsage: [7, 0x80] }), [], ROOT),
    /ca-cert\.pem: .*mute is not a CA certificate/,
  ],
  'a chain longer than its root allows': [
    filesOf(makeCa({ name: 'below', issuer: shallow }), [], shallow),
    /root-cert\.pem: .*shallow root allows 0 CA certificates below it \(path length constraint\), got 1/,
  ],
};

for (const [name, [files, message]] of Object.entries(REFUSED))
  test(`refused in one line that names the file: ${name}`, async (t) => {
    await assert.rejects(plug(t, files), (error: CtlError) => {
      assert.match(error.oneLine(), message);
      assert.doesNotMatch(error.oneLine(), /\n/);
      return true;
    });
  });

test('any of the files counts as a plugged-in root: one without its key is refused and not replaced', async (t) => {
  const directory = await tempDir(t);
  assert.equal(await isPlugged(directory), false);
  assert.equal(await isPlugged(join(directory, 'none')), false);
  const { 'ca-key.pem': _key, ...incomplete } = GOOD;
  await write(directory, incomplete);
  assert.equal(await isPlugged(directory), true);
  await assert.rejects(open(t, directory), (error) => /ca-key\.pem: is missing/.test((error as CtlError).oneLine()));
  await rm(directory, { recursive: true });
  await mkdir(directory);
  await symlink('nowhere', join(directory, 'ca-key.pem'));
  assert.equal(await isPlugged(directory), true);
  await rm(directory, { recursive: true });
  await writeFile(directory, '');
  await assert.rejects(isPlugged(directory), /cannot be read \(ENOTDIR\)/);
});

test('changed files take effect, and the former root stays trusted until it expires', async (t) => {
  const { source, check, changes, directory, time } = await plug(t, GOOD);
  const next = makeCa({ name: 'next root' });
  await write(directory, filesOf(next, [], next));
  await check();
  assert.deepEqual(changes, [next.certificate]);
  assert.deepEqual(source.roots().path, [next.certificate]);
  assert.deepEqual(source.roots().bundle, [next.certificate, ROOT.certificate]);
  await time.advance(50 * DAY_MS);
  await check();
  await check();
  assert.deepEqual(source.roots().bundle, [next.certificate]);
});

test('a mount that swaps a link is followed', async (t) => {
  const base = await tempDir(t);
  const next = makeCa({ name: 'next root' });
  await write(join(base, '1'), GOOD);
  await write(join(base, '2'), filesOf(next, [], next));
  await symlink('1', join(base, 'data'));
  const { source, check } = await open(t, join(base, 'data'));
  for (const [target, path] of [
    ['2', next.certificate],
    ['1', CA.certificate],
    ['2', next.certificate],
  ] as const) {
    await symlink(target, join(base, 'swap'));
    await rename(join(base, 'swap'), join(base, 'data'));
    await check();
    assert.equal(source.roots().path[0], path);
  }
});

test('an invalid file is reported when it is found twice, and the last good root stays in force', async (t) => {
  const { source, check, problems, changes, directory } = await plug(t, GOOD);
  const next = makeCa({ name: 'next root' });
  await write(directory, { 'ca-cert.pem': next.certificate });
  await check();
  assert.deepEqual(problems, []);
  await check();
  assert.match(problems[0] ?? '', /ca-key\.pem: is not the key of the certificate in ca-cert\.pem/);
  await rm(join(directory, 'ca-key.pem'));
  await check();
  await check();
  assert.match(problems.at(-1) ?? '', /ca-key\.pem: is missing/);
  assert.deepEqual([source.roots().path[0], changes], [CA.certificate, []]);
  await write(directory, filesOf(next, [], next));
  await check();
  assert.equal(source.roots().path[0], next.certificate);
});
