/** The programs started as processes. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

for (const program of ['ctl-discovery', 'ctl-agent']) {
  const file = fileURLToPath(new URL(`../${program}.ts`, import.meta.url));
  const start = (args: string[], nodeArgs: string[] = []) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [...nodeArgs, file, ...args], { encoding: 'utf8' });
    return { status, stdout, stderr };
  };

  describe(program, () => {
    test('prints its version', () => {
      const { status, stdout, stderr } = start(['version']);
      assert.deepEqual([status, stderr], [0, '']);
      assert.match(stdout, /^\d+\.\d+\.\d+\n$/);
    });

    test('an unknown flag is refused with one line and exit code 1', () => {
      const stderr = `${program}: unknown flag --nosuchflag\n`;
      assert.deepEqual(start(['version', '--nosuchflag']), { status: 1, stdout: '', stderr });
    });

    test('an older Node.js is refused with one line', () => {
      const older = 'data:text/javascript,Object.defineProperty(process,"versions",{value:{node:"22.9.0"}})';
      const stderr = `${program}: Node.js 24 or newer is needed, this is ${process.version}\n`;
      assert.deepEqual(start(['version'], ['--import', older]), { status: 1, stdout: '', stderr });
    });
  });
}
