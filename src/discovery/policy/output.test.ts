import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';

const MODULE = JSON.stringify(new URL('./output.ts', import.meta.url).href);

/**
 * A program that writes lines once it is told so on descriptor 3, and a reader of its output, which may wait for
 * descriptor 4. A shell makes a real pipe between them, while stdio pipes of Node.js are sockets.
 */
function start(reader: string) {
  const script = `
    import { HandlerOutput } from ${MODULE};
    const output = new HandlerOutput(() => {});
    process.stdin.once('data', () => {
      for (let i = 0; i < 20; i++) output.write('STDOUT', 'x'.repeat(50_000) + '\\n');
      setImmediate(() => setImmediate(() => process.stderr.write('continues')));
    });
    process.stdin.on('end', () => output.close());`;
  const run = spawn('sh', ['-c', `"$0" --input-type=module -e "$1" <&3 | ${reader}`, process.execPath, script], {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
  });
  const [, output, errors, control, gate] = run.stdio as unknown as readonly Duplex[];
  assert.ok(output && errors && control && gate);
  return { output: text(output), errors, control, gate };
}

test('a reader of standard output that is stuck does not stop the program, and gets all lines later', async () => {
  const { output, errors, control, gate } = start('(read -r _ <&4; cat)');
  control.write('go');
  assert.equal(String((await once(errors, 'data'))[0]), 'continues');
  gate.end('go on\n');
  control.end();
  assert.equal(await output, `${'x'.repeat(50_000)}\n`.repeat(20));
});

test('a reader of standard output that has gone does not end the program', async () => {
  const { errors, control } = start('(exec </dev/null; echo gone >&3)');
  await once(control, 'data');
  control.end('go');
  assert.equal(await text(errors), 'continues');
});
