import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { wideLines } from './line-width.ts';

test('a line of more than 120 columns is reported with its file and number', async (context) => {
  const folder = await mkdtemp(join(tmpdir(), 'meshd-width-'));
  context.after(() => rm(folder, { recursive: true }));
  await mkdir(join(folder, 'src/part'), { recursive: true });
  await writeFile(join(folder, 'src/part/wide.ts'), `// ${'é'.repeat(117)}\n// ${'é'.repeat(118)}\n`);
  await writeFile(join(folder, 'src/notes.md'), 'x'.repeat(200));
  assert.deepEqual(wideLines(folder), ['src/part/wide.ts:2: 121 columns, at most 120']);
});
