/** The demo as a user runs it. A mark in its environment shows processes that it leaves behind. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { envoyPath, eventually, netnsUnavailable } from '../harness/index.ts';

const noNamespaces = await netnsUnavailable();

const MAIN = join(import.meta.dirname, '../../tools/demo/main.ts');

interface Demo {
  readonly process: ChildProcess;
  readonly pid: number;
  /** Ids of the processes that it or its children started: Envoys are in process groups of their own. */
  running(): Promise<number[]>;
  stdout(): string;
  stderr(): string;
  /** Its exit code, once it has ended. */
  readonly exit: Promise<number | null>;
}

function startDemo(context: TestContext, ...args: readonly string[]): Demo {
  const mark = randomUUID();
  // With NODE_TEST_CONTEXT the demo would behave like a test file.
  const env: NodeJS.ProcessEnv = { ...process.env, ENVOY_PATH: envoyPath(), NODE_TEST_CONTEXT: undefined };
  env.DEMO_TEST = mark;
  // The mesh that is proved runs from the sources, as users start it; the others start faster when built.
  if (args.includes('--once')) delete env.TEST_PROGRAMS;
  const child = spawn(process.execPath, [MAIN, ...args], { detached: true, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const exit = once(child, 'close').then(() => child.exitCode);
  const pid = child.pid ?? assert.fail('the demo has no process id');
  const running = () => marked(mark);
  // A failed test must not leave a mesh behind.
  context.after(async () => {
    for (const left of await running()) process.kill(left, 'SIGKILL');
  });
  return { process: child, pid, running, stdout: () => stdout, stderr: () => stderr, exit };
}

/** Processes with this text in their environment. */
async function marked(mark: string): Promise<number[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  // Processes of other users cannot be read and do not belong to the demo.
  const environments = await Promise.all(ids.map((id) => readFile(`/proc/${id}/environ`, 'utf8').catch(() => '')));
  return ids.filter((_, i) => environments[i]?.includes(mark)).map(Number);
}

const namespaces = async (): Promise<string> => (await promisify(execFile)('ip', ['netns', 'list'])).stdout;

/** Process ids of the children whose command line holds `word`. */
async function childrenOf(pid: number, word: string): Promise<number[]> {
  const ids = (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(/\s+/).filter(Boolean);
  const lines = await Promise.all(ids.map((id) => readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => '')));
  return ids.filter((_, i) => lines[i]?.includes(word)).map(Number);
}

async function waitForView(demo: Demo): Promise<void> {
  await eventually(() => assert.match(demo.stdout(), /shop\.demo +Delta +synced/, demo.stderr()), {
    timeoutMs: 90_000,
  });
}

test('--once proves every check and leaves nothing running', async (context) => {
  const demo = startDemo(context, '--once');
  assert.equal(await demo.exit, 0, demo.stdout() + demo.stderr());
  const lines = demo.stdout().trim().split('\n');
  const last = lines.pop();
  assert.ok(lines.length >= 15, demo.stdout());
  const skipped = lines.filter((line) => line.startsWith('skip ')).length;
  if (noNamespaces === undefined) assert.equal(skipped, 0, demo.stdout());
  for (const line of lines) assert.match(line, /^(pass|skip) /);
  const rest = skipped === 0 ? '' : `, ${skipped} skipped`;
  assert.equal(last, `${lines.length - skipped} passed, 0 failed${rest}`);
  assert.deepEqual(await demo.running(), []);
});

test('the live view', async (context) => {
  const demo = startDemo(context, '--freePorts');
  await waitForView(demo);
  let removed: string | undefined;

  await context.test('shows the proxies, and a request that a user can send', () => {
    assert.match(demo.stdout(), /curl http:\/\/127\.0\.0\.1:\d+\/hello/);
    assert.match(demo.stdout(), /gateway\.demo +SotW +synced/);
    assert.match(demo.stdout(), /problems +none/);
  });

  await context.test('shows workloads in network namespaces', { skip: noNamespaces }, async () => {
    const hint = /ip netns exec (\S+) curl (http:\/\/stock\.demo:\d+\/)/;
    const [, name = '', url = ''] = hint.exec(demo.stdout()) ?? [];
    assert.match(await namespaces(), new RegExp(`^${name}( |$)`, 'm'));
    const { stdout } = await promisify(execFile)('ip', ['netns', 'exec', name, 'curl', '-sS', url]);
    assert.match(stdout, /URI=spiffe:\/\/cluster\.local\/ns\/demo\/sa\/orders"/);
    removed = name;
  });

  await context.test('a signal ends everything, and removes the namespaces', async () => {
    demo.process.kill('SIGINT');
    assert.equal(await demo.exit, 0, demo.stderr());
    assert.deepEqual(await demo.running(), []);
    if (removed === undefined) return;
    assert.doesNotMatch(await namespaces(), new RegExp(removed.replace(/orders$/, '')));
    await assert.rejects(readdir(`/etc/netns/${removed}`), { code: 'ENOENT' });
  });
});

test('a signal while it starts leaves nothing running', async (context) => {
  const demo = startDemo(context, '--freePorts');
  await eventually(() => assert.match(demo.stderr(), /starting three agents/), { timeoutMs: 60_000 });
  demo.process.kill('SIGTERM');
  assert.equal(await demo.exit, 0, demo.stderr());
  assert.deepEqual(await demo.running(), []);
});

test('a process that dies ends the demo, with one line that names it', async (context) => {
  const demo = startDemo(context, '--freePorts');
  await waitForView(demo);
  const [agent] = await childrenOf(demo.pid, 'ctl-agent');
  process.kill(agent ?? assert.fail('no agent runs'), 'SIGKILL');
  assert.equal(await demo.exit, 1);
  assert.match(demo.stderr(), /^demo: the agent of gateway\.demo ended with signal SIGKILL/m);
  assert.deepEqual(await demo.running(), []);
});

test('an unknown option is refused in one line, with the usage', async (context) => {
  const demo = startDemo(context, '--twice');
  assert.equal(await demo.exit, 1);
  assert.match(demo.stderr(), /^demo: Unknown option '--twice'.*\nusage: npm start/);
});
