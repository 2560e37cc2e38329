/** `.ci/commit-subjects`, which continuous integration runs on the commits of a pull request. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

const SCRIPT = join(import.meta.dirname, '../../.ci/commit-subjects');

test('a commit subject of more than 72 characters is reported', (context) => {
  const cwd = mkdtempSync(join(tmpdir(), 'subjects-'));
  context.after(() => rmSync(cwd, { recursive: true }));
  const author = ['-c', 'user.name=test', '-c', 'user.email=test@example.com'];
  const git = (...args: readonly string[]) => execFileSync('git', [...author, ...args], { cwd, stdio: 'ignore' });
  git('init', '--initial-branch=main');
  for (const subject of ['first', 'x'.repeat(72)]) git('commit', '--allow-empty', '--message', subject);
  const check = () => spawnSync(SCRIPT, ['main~1..HEAD'], { cwd, encoding: 'utf8' });
  assert.equal(check().status, 0);

  git('commit', '--allow-empty', '--message', 'y'.repeat(73));
  const { status, stderr } = check();
  assert.equal(status, 1);
  assert.match(stderr, /73 characters: \w+ y{73}$/m);
});
