/** Machines on which a test runs the commands of a document. */
import assert from 'node:assert/strict';
import { chmod, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { type Child, eventually, type Namespace, programFile, startChild, tempDir } from '../../harness/index.ts';

/** A machine of the quickstart: a network namespace and the folder in which its commands run. */
export interface Machine {
  readonly netns: Namespace;
  readonly folder: string;
  /** Starts the commands of an example. */
  start(text: string): Promise<Child>;
  /** Runs the commands of an example to their end, which has to be a success; resolves with what they print. */
  run(text: string): Promise<string>;
}

export async function makeMachine(t: TestContext, netns: Namespace, programs: string): Promise<Machine> {
  const folder = await tempDir(t);
  const env = { PATH: [programs, dirname(process.execPath), process.env.PATH].join(delimiter) };
  const start = (text: string) => {
    const [command = '', ...args] = netns.command(['sh', '-ec', text]);
    return startChild(t, { name: text.trim().split('\n').at(-1) ?? '', command, args, cwd: folder, env });
  };
  const run = async (text: string) => {
    const child = await start(text);
    assert.equal((await child.exited).code, 0, child.output());
    return child.output();
  };
  return { netns, folder, start, run };
}

/** A folder with the command `ctl-discovery`. */
export async function programsFolder(t: TestContext): Promise<string> {
  const folder = await tempDir(t);
  const file = join(folder, 'ctl-discovery');
  await writeFile(file, `#!/bin/sh\nexec ${process.execPath} ${programFile('ctl-discovery')} "$@"\n`);
  await chmod(file, 0o755);
  return folder;
}

/** Waits for the proxy of the workload to be ready. */
export async function untilReady(agent: Child, control: Machine, workload: Machine): Promise<void> {
  const url = `http://${workload.netns.address}:15021/healthz/ready`;
  const ready = async () => {
    agent.assertRunning();
    await control.netns.run('curl', '-sS', '--fail', url);
  };
  await eventually(ready, { timeoutMs: 30_000 });
}
