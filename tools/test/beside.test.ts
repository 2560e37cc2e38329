import assert from 'node:assert/strict';
import { mkdtemp, rm, watch, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { runTestsBeside } from './beside.ts';

const FILE = `
  import { getPriority } from 'node:os';
  import { test } from 'node:test';
  test('runs at the lowest priority', () => { if (getPriority() !== 19) throw new Error(getPriority()); });
  test('fails', () => { throw new Error('on purpose'); });
`;

test('files that run beside others have the lowest priority, and their failures are reported with what they print', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'meshd-beside-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = join(folder, 'some.test.ts');
  await writeFile(file, FILE);
  // With it, a run inside of another one skips its files.
  delete process.env.NODE_TEST_CONTEXT;
  let text = '';
  const signal = new AbortController().signal;
  const run = { files: [file], folder, concurrency: 1, timeoutMs: 60_000, verbose: false, signal };
  const outcome = await runTestsBeside(run, (more) => {
    text += more;
  });
  assert.deepEqual(outcome, { passed: 1, failed: 1, skipped: 0, failures: ['some.test.ts: fails'] });
  assert.match(text, /FAIL some\.test\.ts: fails\n +Error: on purpose/);
});

test('the signal ends a file that hangs, which is a failure', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'meshd-beside-'));
  t.after(() => rm(folder, { recursive: true }));
  const [file, begun] = [join(folder, 'hangs.test.ts'), join(folder, 'begun')];
  await writeFile(
    file,
    `import { writeFileSync } from 'node:fs';
    import { test } from 'node:test';
    test('hangs', () => { writeFileSync(${JSON.stringify(begun)}, ''); for (;;); });`,
  );
  delete process.env.NODE_TEST_CONTEXT;
  const ending = new AbortController();
  const changes = watch(folder);
  const run = { files: [file], folder, concurrency: 1, timeoutMs: 600_000, verbose: false, signal: ending.signal };
  const outcome = runTestsBeside(run, () => {});
  for await (const { filename } of changes) if (filename === 'begun') break;
  ending.abort();
  const { failed, failures } = await outcome;
  assert.deepEqual([failed, failures], [1, ['hangs.test.ts']]);
});
