import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, readFile, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { tempDir } from '../../../test/harness/files.ts';
import { XDS } from '../../core/xds-types.ts';
import { Snapshot } from './snapshot.ts';
import { readSnapshot, type SnapshotOwner, snapshotPath, writeSnapshot } from './snapshot-file.ts';

const OWNER: SnapshotOwner = { nodeId: 'sidecar~192.0.2.1~web.shop~shop.svc.cluster.local', variant: 'delta' };
const AS_OF = Date.UTC(2026, 0, 2);
const any = (): boolean => true;

function snapshotOf(typeUrl: string, resources: Readonly<Record<string, string>>, into = new Snapshot('delta', AS_OF)) {
  const located = Object.entries(resources).map(([name, value]) => ({
    name,
    version: `v-${name}`,
    bytes: Buffer.from(value),
  }));
  into.accept({ typeUrl, nonce: '1', version: 'all', resources: located, removed: [] }, false, any);
  return into;
}

const contentOf = (snapshot: Snapshot | undefined) =>
  [...(snapshot?.types() ?? [])].map(([typeUrl, { version, resources }]) => [
    typeUrl,
    version,
    [...resources.values()].map(({ name, version: each, bytes }) => [name, each, bytes.toString()]),
  ]);

async function saved(context: TestContext): Promise<string> {
  const path = join(await tempDir(context), 'folder', 'snapshot');
  await writeSnapshot(path, OWNER, snapshotOf(XDS.cds.url, { a: 'one\n', b: '', ü: 'x'.repeat(100_000) }));
  return path;
}

const read = (path: string, owner = OWNER) => readSnapshot(path, owner, () => undefined);

test('a snapshot is read as it was written, readable for its owner only', async (t) => {
  const path = await saved(t);
  const snapshot = await read(path);
  assert.deepEqual(contentOf(snapshot), [
    [
      XDS.cds.url,
      'all',
      [
        ['a', 'v-a', 'one\n'],
        ['b', 'v-b', ''],
        ['ü', 'v-ü', 'x'.repeat(100_000)],
      ],
    ],
  ]);
  assert.equal(snapshot?.asOf, AS_OF);
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  assert.deepEqual(await readdir(join(path, '..')), ['snapshot']);
});

test('secrets are not written', async (t) => {
  const path = join(await tempDir(t), 'snapshot');
  const snapshot = snapshotOf(XDS.sds.url, { key: 'PRIVATE' }, snapshotOf(XDS.lds.url, { a: 'one' }));
  await writeSnapshot(path, OWNER, snapshot);
  assert.ok(!(await readFile(path)).includes('PRIVATE'));
  assert.deepEqual(
    contentOf(await read(path)).map(([typeUrl]) => typeUrl),
    [XDS.lds.url],
  );
});

test('a file that is cut off, changed, foreign or of another proxy is refused with its name', async (t) => {
  const path = await saved(t);
  const bytes = await readFile(path);
  const refused = (message: RegExp, owner = OWNER) => assert.rejects(read(path, owner), { message });
  await refused(/to node sidecar~.*, not to router~/, { ...OWNER, nodeId: 'router~' });
  await refused(/other xDS variant/, { ...OWNER, variant: 'sotw' });
  for (const length of [bytes.length - 1, bytes.length - 40, 30, 22]) {
    await writeFile(path, bytes);
    await truncate(path, length);
    await refused(/incomplete or damaged/);
  }
  const changed = Buffer.from(bytes);
  changed[500] = (changed[500] ?? 0) ^ 1;
  await writeFile(path, changed);
  await refused(/incomplete or damaged/);
  for (const foreign of ['', 'hello', '{"version_info": "1"}']) {
    await writeFile(path, foreign);
    await refused(/not a snapshot of this program/);
  }
});

test('a file that another user can write, or a link, is refused', async (t) => {
  const path = await saved(t);
  const link = `${path}-link`;
  await symlink(path, link);
  await assert.rejects(read(link), { message: /ELOOP/ });
  await chmod(path, 0o660);
  await assert.rejects(read(path), { message: /another user can write the snapshot/ });
});

test('without a file there is no snapshot; a folder is no file', async (t) => {
  const folder = await tempDir(t);
  assert.equal(await read(join(folder, 'none')), undefined);
  await assert.rejects(read(folder), { message: /not a regular file/ });
});

test('a write that fails leaves the earlier file', async (t) => {
  const path = await saved(t);
  // In place of the temporary file there is a folder.
  await mkdir(join(path, '..', '.snapshot.new', 'x'), { recursive: true });
  await assert.rejects(writeSnapshot(path, OWNER, new Snapshot('delta', 1)), { message: /EEXIST/ });
  assert.equal((await read(path))?.asOf, AS_OF);
});

test('XDS_SAVE names a file, or a folder for it', async (t) => {
  const folder = await tempDir(t);
  assert.equal(await snapshotPath(folder), join(folder, 'xds-snapshot'));
  assert.equal(await snapshotPath(join(folder, 'new/')), join(folder, 'new/xds-snapshot'));
  assert.equal(await snapshotPath(join(folder, 'file')), join(folder, 'file'));
});

test('memory of messages is freed when few of their resources are left', () => {
  const snapshot = new Snapshot('delta', AS_OF);
  for (let round = 0; round < 50; round++) {
    // Of each message one resource stays, the others are replaced by the next one.
    const message = Buffer.alloc(200_000, round);
    const resources = [
      { name: `kept-${round}`, version: '1', bytes: message.subarray(0, 100) },
      { name: 'replaced', version: String(round), bytes: message.subarray(100) },
    ];
    snapshot.accept({ typeUrl: XDS.cds.url, nonce: '', version: '', resources, removed: [] }, false, any);
  }
  assert.equal(snapshot.bytes, 50 * 100 + 199_900);
  assert.ok(snapshot.keptBytes <= 2 * snapshot.bytes + 1024 * 1024, `${snapshot.keptBytes} bytes are kept`);
  const buffers = new Set([...(snapshot.get(XDS.cds.url)?.resources.values() ?? [])].map(({ bytes }) => bytes.buffer));
  assert.ok(buffers.size < 10, `${buffers.size} messages are kept`);
  assert.equal(snapshot.get(XDS.cds.url)?.resources.get('kept-7')?.bytes[0], 7);
});

test('a configuration that is replaced as a whole is not copied', () => {
  const snapshot = new Snapshot('sotw', AS_OF);
  for (let version = 0; version < 5; version++) {
    const bytes = Buffer.alloc(3 * 1024 * 1024);
    const resources = [{ name: 'a', version: String(version), bytes }];
    const response = { typeUrl: XDS.cds.url, nonce: '', version: String(version), resources, removed: [] };
    snapshot.accept(response, false, () => true);
    assert.equal(snapshot.get(XDS.cds.url)?.resources.get('a')?.bytes, bytes);
    assert.equal(snapshot.keptBytes, bytes.length);
  }
});
