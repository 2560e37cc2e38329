import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempDir } from '../../../test/harness/files.ts';
import { lockDirectory } from './directory-lock.ts';

test('a lock has one holder, and the error for others names the directory and the process', async (t) => {
  const directory = await tempDir(t);
  const lock = await lockDirectory(directory);
  await assert.rejects(
    lockDirectory(directory),
    (error: Error) => error.message.includes(`process ${process.pid}`) && String(error).includes('in use'),
  );
  await lock.release();
  assert.deepEqual(await readdir(directory), []);
  await (await lockDirectory(directory)).release();
});

test('exactly one of several concurrent callers gets the lock', async (t) => {
  const directory = await tempDir(t);
  const tries = await Promise.allSettled(Array.from({ length: 8 }, () => lockDirectory(directory)));
  const held = tries.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  assert.equal(held.length, 1);
  await held[0]?.release();
  assert.deepEqual(await readdir(directory), []);
});

test('exactly one of several concurrent callers gets the lock of a killed process', async (t) => {
  const directory = await tempDir(t);
  const module = JSON.stringify(new URL('./directory-lock.ts', import.meta.url).href);
  const program = `const { lockDirectory } = await import(${module});
    await lockDirectory(${JSON.stringify(directory)}); process.stdout.write('held'); setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  await assert.rejects(lockDirectory(directory), new RegExp(`process ${child.pid}`));
  child.kill('SIGKILL');
  await once(child, 'exit');
  const tries = await Promise.allSettled(Array.from({ length: 4 }, () => lockDirectory(directory)));
  const held = tries.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  assert.equal(held.length, 1);
  await held[0]?.release();
});

test('a directory whose path exceeds the maximum for sockets can be locked', async (t) => {
  const directory = join(await tempDir(t), 'd'.repeat(150));
  await mkdir(directory);
  const lock = await lockDirectory(directory);
  await assert.rejects(lockDirectory(directory), /in use/);
  await lock.release();
});

test('a regular file with the name of the lock does not prevent locking', async (t) => {
  const directory = await tempDir(t);
  await writeFile(join(directory, '.lock'), '');
  await (await lockDirectory(directory)).release();
});
