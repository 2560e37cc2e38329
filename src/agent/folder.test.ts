import assert from 'node:assert/strict';
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

test('a folder that cannot be created is an error at once', { skip: process.platform !== 'linux' }, async () => {
  await assert.rejects(makeFolder('/proc/nosuch/folder'), { code: 'ENOENT' });
});
