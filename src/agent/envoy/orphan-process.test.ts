import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { getScope, setLevel } from '../../logging/index.ts';
import { endOrphanProcess, noteEnvoy } from './orphan-process.ts';

setLevel('default', 'none');
const log = getScope('default');
const CONFIG = '/run/envoy-rev0.json';

/** A process with the configuration's path among its arguments, and a note in its own folder. */
async function noted(t: TestContext, config = CONFIG) {
  const folder = await mkdtemp(join(tmpdir(), 'leftover-'));
  const child = spawn('sh', ['-c', 'sleep 60', 'envoy', config], { stdio: 'ignore' });
  t.after(async () => {
    child.kill('SIGKILL');
    await rm(folder, { recursive: true });
  });
  await new Promise((resolve) => child.once('spawn', resolve));
  noteEnvoy(folder, child.pid ?? 0);
  const note = join(folder, 'envoy.pid');
  /** Changes the note as if another process were the agent. */
  const orphaned = async () => writeFile(note, (await readFile(note, 'utf8')).replace(/ \d+\n$/, ' 1\n'));
  return { folder, child, note, orphaned };
}

function runs({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null;
}

const options = { skip: process.platform !== 'linux' };

test('an Envoy whose agent has died is terminated', options, async (t) => {
  const { folder, child, orphaned } = await noted(t);
  await orphaned();
  const ended = new Promise((resolve) => child.once('exit', (_, signal) => resolve(signal)));
  await endOrphanProcess(folder, CONFIG, log);
  assert.equal(await ended, 'SIGKILL');
  await endOrphanProcess(folder, CONFIG, log);
});

test('an Envoy with its agent, another process, and another folder’s Envoy are not terminated', options, async (t) => {
  const owned = await noted(t);
  await endOrphanProcess(owned.folder, CONFIG, log);
  const other = await noted(t, '/elsewhere/envoy-rev0.json');
  await other.orphaned();
  await endOrphanProcess(other.folder, CONFIG, log);
  const later = await noted(t);
  await later.orphaned();
  await writeFile(later.note, (await readFile(later.note, 'utf8')).replace(/ (\d+) 1\n$/, ' 1$1 1\n'));
  await endOrphanProcess(later.folder, CONFIG, log);
  for (const text of ['', 'x', '1 1 1\n', '999999999 1 1\n']) {
    await writeFile(later.note, text);
    await endOrphanProcess(later.folder, CONFIG, log);
  }
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(
    [owned, other, later].map(({ child }) => runs(child)),
    [true, true, true],
  );
});
