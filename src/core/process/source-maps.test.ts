import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { sourceFrame, sourceStack } from './source-maps.ts';

test('frames of a bundle are named by its sources', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'meshd-'));
  t.after(() => rm(folder, { recursive: true }));
  await mkdir(join(folder, 'src'));
  const text = '\n\nexport function fail(): string {\n  return new Error("no").stack ?? "";\n}';
  await writeFile(join(folder, 'src/observe.ts'), text);
  await build({
    entryPoints: ['src/observe.ts'],
    absWorkingDir: folder,
    outfile: join(folder, 'dist/out.js'),
    bundle: true,
    format: 'esm',
    minifyWhitespace: true,
    sourcemap: 'linked',
  });
  const built = join(folder, 'dist/out.js');
  const { fail } = (await import(pathToFileURL(built).href)) as { fail: () => string };
  const [message, frame] = sourceStack(fail()).split('\n');
  assert.equal(message, 'Error: no');
  assert.match(frame ?? '', /^ +at fail \(src\/observe\.ts:4:\d+\)$/);
});

test('frames without a map stay as they are', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'meshd-'));
  t.after(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, 'broken.js.map'), 'no JSON');
  for (const line of [
    'Error: of nothing',
    '    at file:///no/such/file.js:1:2',
    `    at run (${join(folder, 'broken.js')}:3:4)`,
    '    at async node:internal/main:5:6',
    '    at new Promise (<anonymous>)',
  ]) {
    assert.equal(sourceFrame(line), line);
  }
});
