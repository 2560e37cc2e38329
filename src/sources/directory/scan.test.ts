import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { statBelow } from './scan.ts';

test('a missing file, a path that cannot be checked and a missing directory are told apart', async (context) => {
  const base = await mkdtemp(join(tmpdir(), 'meshd-scan-'));
  context.after(() => rm(base, { recursive: true }));
  const root = join(base, 'config');
  const path = join(root, 'a.yaml');
  await mkdir(root);
  await writeFile(path, 'x');
  const found = await statBelow(root, path);
  assert.ok(typeof found === 'object' && found.size === 1);
  assert.equal(await statBelow(root, join(root, 'b.yaml')), undefined);
  // The system refuses the check, as where permissions or a network file system fail.
  assert.equal(await statBelow(root, `${root}/\0.yaml`), 'unknown');
  await rm(root, { recursive: true });
  assert.equal(await statBelow(root, path), 'unknown');
});
