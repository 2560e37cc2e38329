import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { linesOfDirectory, linesOfFiles } from './files.ts';

const dir = mkdtempSync(join(tmpdir(), 'diff-files-'));
after(() => rmSync(dir, { recursive: true }));

test('files of a change are limited by their bytes together, as the server limits them', async () => {
  // 18 MB each: together 36 MB, and 18 million characters.
  const names = ['a.yaml', 'b.yaml'].map((name) => join(dir, name));
  for (const name of names) writeFileSync(name, `# ${'é'.repeat(9_000_000)}\n`);
  const refused = { code: 'invalid_argument', message: /at most 33554432 bytes together/ };
  await assert.rejects(linesOfFiles(names), refused);
  await assert.rejects(linesOfDirectory(dir), refused);
  assert.equal((await linesOfFiles(names.slice(1))).length, 1);
});
