import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { wideLines } from './line-width.ts';

const x = (columns: number) => 'x'.repeat(columns);

const LINES: readonly (readonly [what: string, line: string, file: string, wide: boolean])[] = [
  ['a line of 120 columns', `// ${'é'.repeat(117)}`, 'src/part/a.ts', false],
  ['a line of 121 columns', `// ${'é'.repeat(118)}`, 'src/part/a.ts', true],
  ['a message of the product', `  '${x(120)}',`, 'src/part/a.ts', true],
  ['a document of several lines', `  'kind: ${x(120)}\\n',`, 'src/part/a.ts', false],
  ['a regular expression', `  /${x(120)}/m,`, 'src/part/a.ts', false],
  ['a document of a test', `  '${x(120)}',`, 'src/part/a.test.ts', false],
  ['a statement of a test', `  call('${x(120)}', 1);`, 'src/part/a.test.ts', true],
  ['a title of 140 columns', `test('${x(119)}', () => {`, 'test/a.test.ts', false],
  ['a longer title', `test('${x(130)}', () => {`, 'test/a.test.ts', true],
];

for (const [what, line, file, wide] of LINES) {
  test(`${what} is ${wide ? 'reported with its file and number' : 'accepted'}`, async (context) => {
    const folder = await mkdtemp(join(tmpdir(), 'meshd-width-'));
    context.after(() => rm(folder, { recursive: true }));
    for (const each of ['src/part', 'test']) await mkdir(join(folder, each), { recursive: true });
    await writeFile(join(folder, file), `\n${line}\n`);
    assert.deepEqual(wideLines(folder), wide ? [`${file}:2: more than 120 columns`] : []);
  });
}
