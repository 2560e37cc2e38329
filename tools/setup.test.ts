/** The set-up of `npm start`, with a PATH without iptables and an apt-get that records its arguments. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';

const SETUP = join(import.meta.dirname, 'setup.mjs');
const skip = process.getuid?.() === 0 ? false : 'needs root, without which nothing is installed';

async function setUpDemo(t: TestContext, aptExitCode: number) {
  const folder = await mkdtemp(join(tmpdir(), 'meshd-setup-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  for (const program of ['curl', 'ip', 'openssl']) await symlink('/bin/true', join(folder, program));
  const apt = join(folder, 'apt-get');
  await writeFile(apt, `#!/bin/sh\necho "$@" >> "${folder}/asked"\nexit ${aptExitCode}\n`);
  await chmod(apt, 0o755);
  const env = { ...process.env, PATH: folder };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [SETUP, 'demo', '--', '--help'], { env });
  return { asked: await readFile(join(folder, 'asked'), 'utf8'), stdout, stderr };
}

test('npm start installs missing system programs, as npm test does', { skip }, async (t) => {
  const { asked, stdout } = await setUpDemo(t, 0);
  assert.match(asked, /^install .* iptables$/m);
  assert.match(stdout, /usage: npm start/);
});

test('npm start continues without them, with a message', { skip }, async (t) => {
  const { stdout, stderr } = await setUpDemo(t, 100);
  assert.match(stderr, /apt-get update -qq failed: exit code 100; continuing without it/);
  assert.match(stdout, /usage: npm start/);
});
