import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { runTestsAside } from './apart.ts';

const FILE = `
  import { getPriority } from 'node:os';
  import { test } from 'node:test';
  test('runs at the lowest priority', () => { if (getPriority() !== 19) throw new Error(getPriority()); });
  test('fails', () => { throw new Error('on purpose'); });
`;

test('files that run aside have the lowest priority, and their failures are reported with what they print', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'meshd-aside-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = join(folder, 'some.test.ts');
  await writeFile(file, FILE);
  // With it, a run inside of another one skips its files.
  delete process.env.NODE_TEST_CONTEXT;
  let text = '';
  const signal = new AbortController().signal;
  const run = { files: [file], folder, concurrency: 1, timeoutMs: 60_000, verbose: false, signal };
  const outcome = await runTestsAside(run, (more) => {
    text += more;
  });
  assert.deepEqual(outcome, { passed: 1, failed: 1, skipped: 0, failures: ['some.test.ts: fails'] });
  assert.match(text, /FAIL some\.test\.ts: fails\n +Error: on purpose/);
});
