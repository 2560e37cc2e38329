import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeFolder } from './folder.ts';

test('folders are created with their parents, and may exist already', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'folder-'));
  t.after(() => rm(root, { recursive: true }));
  const deep = join(root, 'a/b/c');
  await makeFolder(deep, 0o700);
  await makeFolder(deep);
  await makeFolder(join(root, 'relative/../relative'));
  assert.equal((await stat(join(root, 'a/b'))).mode & 0o777, 0o700);
  await writeFile(join(root, 'file'), '');
  await assert.rejects(makeFolder(join(root, 'file')), { code: 'EEXIST' });
  await assert.rejects(makeFolder(join(root, 'file/below')), { code: 'ENOTDIR' });
});

test('a umask that holds only while the folder is created makes no difference', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'folder-'));
  t.after(() => rm(root, { recursive: true }));
  const path = join(root, 'a');
  const before = process.umask(0o177);
  const made = makeFolder(path, 0o755);
  const deadline = Date.now() + 60_000;
  while (!existsSync(path) && Date.now() < deadline);
  process.umask(before);
  await made;
  assert.equal((await stat(path)).mode & 0o777, 0o755 & ~before);
});

test('a folder that cannot be created is an error at once', { skip: process.platform !== 'linux' }, async () => {
  await assert.rejects(makeFolder('/proc/nosuch/folder'), { code: 'ENOENT' });
});
