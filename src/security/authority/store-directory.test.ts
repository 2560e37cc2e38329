import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempDir } from '../../../test/harness/files.ts';
import type { CtlError } from '../../core/errors.ts';
import { createRoot } from './self-signed-root.ts';
import { createDirectoryStore } from './store-directory.ts';
import { NOW } from './testing/fixtures.ts';

const root = () => createRoot({ trustDomain: 'd', rsaBits: 512, lifetimeSeconds: 1e6, now: NOW, randomBytes });

async function mode(file: string): Promise<number> {
  return (await stat(file)).mode & 0o777;
}

test('a saved state is loaded, its keys are readable by the owner only, and no temporary file remains', async (t) => {
  const directory = join(await tempDir(t), 'var', 'ca');
  const store = createDirectoryStore(directory);
  assert.equal(await store.load(), undefined);
  const [first, next, former] = [await root(), await root(), await root()];
  const state = { ...first, next: { ...next, announcedAt: NOW }, former: [former.certificate] };
  await store.save(state);
  assert.deepEqual(await createDirectoryStore(directory).load(), state);
  // Agents that run as other users read the roots there.
  assert.equal(await mode(directory), 0o755);
  assert.equal(await mode(join(directory, 'ca-state.json')), 0o600);
  assert.equal(await mode(join(directory, 'root-cert.pem')), 0o644);
  const bundle = [first, next, former].map(({ certificate }) => certificate).join('');
  assert.equal(await readFile(join(directory, 'root-cert.pem'), 'utf8'), bundle);
  assert.deepEqual((await readdir(directory)).sort(), ['ca-state.json', 'root-cert.pem']);
});

test('an existing directory keeps its mode', async (t) => {
  const directory = await tempDir(t);
  await chmod(directory, 0o700);
  await createDirectoryStore(directory).save({ ...(await root()), former: [] });
  assert.equal(await mode(directory), 0o700);
});

test('a state that every user may read is refused with file, mode and remedy', async (t) => {
  const directory = await tempDir(t);
  const store = createDirectoryStore(directory);
  await store.save({ ...(await root()), former: [] });
  const file = join(directory, 'ca-state.json');
  await chmod(file, 0o644);
  await assert.rejects(store.load(), (error: CtlError) => {
    assert.match(error.oneLine(), /ca-state\.json.*mode 0644.*set it to 0600/);
    return true;
  });
  // The mode of volumes that belong to a group.
  await chmod(file, 0o660);
  assert.ok(await store.load());
});

test('a temporary file of a crash is ignored', async (t) => {
  const directory = await tempDir(t);
  await writeFile(join(directory, '.ca-state.json.new'), '{"version":1,"key":"-----BEG', { mode: 0o644 });
  const store = createDirectoryStore(directory);
  assert.equal(await store.load(), undefined);
  await store.save({ ...(await root()), former: [] });
  assert.equal(await mode(join(directory, 'ca-state.json')), 0o600);
  assert.ok(await store.load());
});

const good = await root();
const DAMAGE: Readonly<Record<string, readonly [string, RegExp]>> = {
  'an empty file': ['', /does not hold a certificate authority's state/],
  'half a file': [JSON.stringify({ version: 1, ...good, former: [] }).slice(0, 300), /does not hold/],
  'a later version': [JSON.stringify({ version: 2, ...good, former: [] }), /does not hold/],
  'a key of another certificate': [
    JSON.stringify({ version: 1, ...good, key: (await root()).key, former: [] }),
    /not the key of its certificate/,
  ],
  'a key that is none': [JSON.stringify({ version: 1, ...good, key: 'x', former: [] }), /key that cannot be read/],
  'a former root that is none': [
    JSON.stringify({ version: 1, ...good, former: ['x'] }),
    /certificate that cannot be read/,
  ],
};

for (const [name, [text, message]] of Object.entries(DAMAGE))
  test(`refused with the name of the file: ${name}`, async (t) => {
    const directory = await tempDir(t);
    const file = join(directory, 'ca-state.json');
    await writeFile(file, text, { mode: 0o600 });
    await assert.rejects(createDirectoryStore(directory).load(), { message, location: { file } });
  });

test('a state that is missing beside its trust bundle is an error, not a new start', async (t) => {
  const directory = await tempDir(t);
  const store = createDirectoryStore(directory);
  await store.save({ ...good, former: [] });
  await rm(join(directory, 'ca-state.json'));
  await assert.rejects(store.load(), /is missing, though .*root-cert.pem/);
});

test('the error for a directory that is not writable names it', async (t) => {
  const directory = join(await tempDir(t), 'file');
  await writeFile(directory, '');
  await assert.rejects(createDirectoryStore(directory).save({ ...good, former: [] }), /cannot be written \(E/);
  await rm(directory);
  await mkdir(join(directory, 'ca-state.json'), { recursive: true });
  await assert.rejects(createDirectoryStore(directory).load(), /cannot be read \(EISDIR\)/);
});
