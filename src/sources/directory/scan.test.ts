import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { statBelow } from './scan.ts';

test('a missing file, a link, a path that cannot be checked and a missing directory are told apart', async (context) => {
  const base = await mkdtemp(join(tmpdir(), 'meshd-scan-'));
  context.after(() => rm(base, { recursive: true }));
  const root = join(base, 'config');
  const path = join(root, 'a.yaml');
  await mkdir(root);
  await writeFile(path, 'x');
  const found = await statBelow(root, path);
  assert.ok(typeof found === 'object' && found.size === 1);
  assert.equal(await statBelow(root, join(root, 'b.yaml')), undefined);
  // A part of the path is a file now.
  assert.equal(await statBelow(root, join(path, 'b.yaml')), undefined);
  await symlink(path, join(root, 'link.yaml'));
  await mkdir(join(root, 'directory.yaml'));
  assert.equal(await statBelow(root, join(root, 'link.yaml')), 'detour');
  assert.equal(await statBelow(root, join(root, 'directory.yaml')), 'detour');
  // The system refuses the check, as where permissions or a network file system fail.
  assert.equal(await statBelow(root, `${root}/\0.yaml`), 'unknown');
  await rm(root, { recursive: true });
  assert.equal(await statBelow(root, path), 'unknown');
});
