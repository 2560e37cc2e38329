import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { runDiscoveryCommand } from './testing/fake-pages.ts';

const script = async (shell: string) => (await runDiscoveryCommand(['completion', shell])).stdout;

/** What bash offers for a command line, whose last word is completed. */
function completed(source: string, ...words: readonly string[]): string[] {
  const run = `${source}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ctl_discovery; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return execFileSync('bash', ['-euc', run, 'bash', 'ctl-discovery', ...words], { encoding: 'utf8' })
    .split('\n')
    .filter((word) => word !== '');
}

test('bash completes commands, flags, and values of flags and arguments', async () => {
  const source = await script('bash');
  assert.deepEqual(completed(source, 'proxy-'), ['proxy-config', 'proxy-status']);
  assert.deepEqual(completed(source, 'proxy-config', 'cl'), ['clusters']);
  assert.deepEqual(completed(source, 'proxy-config', 'clusters', '--fq'), ['--fqdn']);
  assert.deepEqual(completed(source, 'proxy-status', '-o', ''), ['json', 'yaml', 'table']);
  assert.deepEqual(completed(source, '--log_as_json', 'proxy-status', '--output', 'y'), ['yaml']);
  assert.deepEqual(completed(source, 'completion', ''), [
    'bash',
    'zsh',
    'fish',
    ...completed(source, 'completion', '-'),
  ]);
  assert.deepEqual(completed(source, 'nothing', ''), []);
});

/** Shells that are installed check the syntax of their script; the others are checked by what it names. */
for (const shell of ['zsh', 'fish'])
  test(`the script for ${shell} names every command and its flags`, async (t) => {
    const source = await script(shell);
    const commands = [...source.matchAll(/proxy-status/g)];
    assert.ok(commands.length > 2);
    assert.match(source, shell === 'fish' ? /-l output -s o -x -a 'json yaml table'/ : /'proxy-status --output'/);
    try {
      execFileSync(shell, ['-n'], { input: source });
    } catch (error) {
      if ((error as { code?: string }).code !== 'ENOENT') throw error;
      t.diagnostic(`${shell} is not installed`);
    }
  });

test('another shell is a mistake', async () => {
  const { code, stderr } = await runDiscoveryCommand(['completion', 'tcsh']);
  assert.deepEqual([code, stderr], [1, 'ctl-discovery: expected bash, zsh, fish, got "tcsh"\n']);
});
