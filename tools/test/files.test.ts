import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import type { Outcome, TestRun } from './files.ts';

const LEAVES_SERVER = `
  import { test } from 'node:test';
  import { createServer } from 'node:net';
  test('fails', () => {
    createServer().listen(0, '127.0.0.1');
    throw new Error('on purpose');
  });
`;

/** Those of the run, and the time after which a process is ended. */
type Options = Partial<TestRun> & { readonly graceMs?: number };

/** Runs files in a process of its own: a run inside of another one would skip its files. */
async function linesOf(
  folder: string,
  files: Readonly<Record<string, string>>,
  { graceMs = 500, ...options }: Options,
): Promise<string[]> {
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const paths = Object.keys(files).map((name) => join(folder, name));
  const script = `
    import { runTests } from ${JSON.stringify(join(import.meta.dirname, 'files.ts'))};
    const signal = new AbortController().signal;
    const more = ${JSON.stringify({ folder, ...options })};
    const options = { concurrency: 1, timeoutMs: 60_000, verbose: false, signal, ...more };
    const outcome = await runTests({ files: ${JSON.stringify(paths)}, ...options });
    process.stdout.write('\\n' + JSON.stringify(outcome));
  `;
  const { NODE_TEST_CONTEXT: _, ...outer } = process.env;
  const runner = join(folder, 'run.mjs');
  await writeFile(runner, script);
  const env = { ...outer, TEST_GRACE_MS: String(graceMs) };
  const { stdout } = await promisify(execFile)(process.execPath, [runner], { env });
  return stdout.split('\n');
}

async function outcomeOf(folder: string, files: Readonly<Record<string, string>>, more: Options): Promise<unknown> {
  return JSON.parse((await linesOf(folder, files, more)).at(-1) ?? '');
}

async function emptyFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'meshd-run-'));
  t.after(() => rm(folder, { recursive: true }));
  return folder;
}

test('a run ends although a failed test has left a server open', async (t) => {
  const outcome = await outcomeOf(await emptyFolder(t), { 'leaves.test.ts': LEAVES_SERVER }, {});
  assert.deepEqual(outcome, { passed: 0, failed: 1, skipped: 0, failures: ['leaves.test.ts: fails'] });
});

test('the CPU time of files is printed, with that of the programs that they start', async (t) => {
  const spend = (seconds: number) => `for (const { cpuUsage } = process; cpuUsage().user < ${seconds}e6; );`;
  const files = {
    'idle.test.ts': `import { test } from 'node:test'; test('passes', () => {});`,
    'spends.test.ts': `
      import { execFileSync } from 'node:child_process';
      import { test } from 'node:test';
      test('spends', () => {
        ${spend(0.5)}
        execFileSync(process.execPath, ['-e', ${JSON.stringify(spend(1))}]);
      });`,
  };
  const lines = await linesOf(await emptyFolder(t), files, {});
  const text = lines.find((line) => line.startsWith('CPU time ')) ?? '';
  const [, all, most] =
    /^CPU time ([\d.]+) s, most: spends\.test\.ts ([\d.]+) s, idle\.test\.ts [\d.]+ s$/.exec(text) ?? [];
  assert.ok(Number(most) >= 1.4 && Number(all) >= Number(most), text);
});

/** Passes in a process that is not shared. */
const alone = (more: string) => `
  import { test } from 'node:test';
  ${more}
  globalThis.files = (globalThis.files ?? 0) + 1;
  test('is alone', () => { if (globalThis.files !== 1) throw new Error('shared'); });
`;

/** Passes as the file of this number in a process. */
const shared = (number: number) => `
  import { test } from 'node:test';
  import state from './state.mjs';
  state.files = (state.files ?? 0) + 1;
  test('is not alone', () => { if (state.files < ${number}) throw new Error(state.files + ' files'); });
`;

/** As a file of this number in a process, with hooks that apply only to it. */
const sharedWithHooks = (number: number) => `
  import { after, before, beforeEach } from 'node:test';
  ${shared(number)}
  let [begun, each] = [0, 0];
  before(() => {
    if (state.hooks) throw new Error('the hooks of another file have not ended');
    state.hooks = true;
    begun++;
  });
  beforeEach(() => { each++; });
  after(() => { state.hooks = false; if (begun !== 1 || each !== 1) throw new Error(begun + ' and ' + each); });
`;

test('small files share a process and keep their hooks, except those that change it', async (t) => {
  const folder = await emptyFolder(t);
  await writeFile(join(folder, 'state.mjs'), 'export default {};');
  const files = {
    'shared-1.test.ts': shared(1),
    'alone-1.test.ts': alone(''),
    'hooks-1.test.ts': sharedWithHooks(2),
    'hooks-2.test.ts': sharedWithHooks(3),
    'alone-2.test.ts': alone("import { createServer } from 'node:net';"),
    'shared-2.test.ts': `import type { Server } from 'node:net';\n${shared(4)}`,
  };
  const outcome = await outcomeOf(folder, files, { together: true });
  assert.deepEqual(outcome, { passed: 6, failed: 0, skipped: 0, failures: [] });
});

test('a hook that fails is one failure of those that share its process', async (t) => {
  const files = {
    'first.test.ts': `import { after, test } from 'node:test';
      after(() => { throw new Error('on purpose'); });
      test('first', () => {});`,
    'last.test.ts': `import { test } from 'node:test'; test('last', () => {});`,
  };
  const outcome = (await outcomeOf(await emptyFolder(t), files, { together: true })) as Outcome;
  assert.deepEqual([outcome.passed, outcome.failed], [2, 1]);
  assert.match(outcome.failures.join('\n'), /first\.test\.ts/);
});

test('a file that cannot be loaded is one failure of those that share its process', async (t) => {
  const files = {
    'first.test.ts': `import { test } from 'node:test'; test('first', () => { throw new Error('on purpose'); });`,
    'broken.test.ts': `throw new Error('on purpose');`,
    'last.test.ts': `import { test } from 'node:test'; test('last', () => {});`,
  };
  const outcome = (await outcomeOf(await emptyFolder(t), files, { together: true })) as Outcome;
  assert.deepEqual([outcome.passed, outcome.failed], [1, 2]);
  assert.match(outcome.failures.join('\n'), /first\.test\.ts: first/);
  assert.match(outcome.failures.join('\n'), /load .*broken\.test\.ts/);
});

test('the time after which a process is ended counts from the last test of all files that share it', async (t) => {
  const folder = await emptyFolder(t);
  await writeFile(join(folder, 'delay.mjs'), "export { setTimeout as delay } from 'node:timers/promises';");
  const graceMs = 2_000;
  const files = {
    'first.test.ts': `import { test } from 'node:test'; test('first', () => {});`,
    // The first test has ended when this one is known.
    'late.test.ts': `
      import { test } from 'node:test';
      import { delay } from './delay.mjs';
      await delay(100);
      test('takes longer than that time', () => delay(${graceMs + 500}));`,
  };
  const outcome = await outcomeOf(folder, files, { together: true, graceMs });
  assert.deepEqual(outcome, { passed: 2, failed: 0, skipped: 0, failures: [] });
});
