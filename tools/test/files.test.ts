import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const LEAVES_SERVER = `
  import { test } from 'node:test';
  import { createServer } from 'node:net';
  test('fails', () => {
    createServer().listen(0, '127.0.0.1');
    throw new Error('on purpose');
  });
`;

test('a run ends although a failed test has left a server open', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'meshd-run-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = join(folder, 'leaves.test.ts');
  await writeFile(file, LEAVES_SERVER);
  const script = `
    import { runTests } from ${JSON.stringify(join(import.meta.dirname, 'files.ts'))};
    const signal = new AbortController().signal;
    const options = { folder: ${JSON.stringify(folder)}, concurrency: 1, timeoutMs: 60_000, verbose: false, signal };
    const outcome = await runTests({ files: [${JSON.stringify(file)}], ...options });
    process.stdout.write('\\n' + JSON.stringify(outcome));
  `;
  // A run inside of another one would skip its files.
  const { NODE_TEST_CONTEXT: _, ...outer } = process.env;
  const env = { ...outer, TEST_GRACE_MS: '500' };
  const runner = join(folder, 'run.mjs');
  await writeFile(runner, script);
  const { stdout } = await promisify(execFile)(process.execPath, [runner], { env });
  const outcome: unknown = JSON.parse(stdout.split('\n').at(-1) ?? '');
  assert.deepEqual(outcome, { passed: 0, failed: 1, skipped: 0, failures: ['leaves.test.ts: fails'] });
});
