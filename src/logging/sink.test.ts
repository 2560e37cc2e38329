import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import * as nodeFs from 'node:fs';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { MAX_BUFFERED_BYTES, openSink, type SinkDeps } from './sink.ts';

const folder = mkdtempSync(join(tmpdir(), 'meshd-sink-'));
after(() => rmSync(folder, { recursive: true }));

const notice = (dropped: number) => `dropped ${dropped}\n`;

/** A sink whose writes go to `take`, which returns the number of written bytes or throws. The test runs its tasks. */
function fakeSink(take: (bytes: Buffer) => number) {
  const tasks: (() => void)[] = [];
  let writes = 0;
  let pauses = 0;
  const deps: SinkDeps = {
    fs: {
      ...nodeFs,
      openSync: () => 7,
      closeSync: () => {},
      writeSync: ((_fd: number, bytes: Buffer) => {
        writes += 1;
        return take(bytes);
      }) as typeof nodeFs.writeSync,
    },
    defer: (task) => tasks.push(task),
    retry: (task) => tasks.push(task),
    pause: () => {
      pauses += 1;
    },
  };
  const turn = () => {
    for (const task of tasks.splice(0)) task();
  };
  return { sink: openSink('file', notice, deps), turn, writes: () => writes, pauses: () => pauses };
}

const failure = (code: string) => Object.assign(new Error(code), { code });

test('lines of one turn of the event loop are one write, in order', () => {
  let text = '';
  const { sink, turn, writes } = fakeSink((bytes) => {
    text += bytes.toString();
    return bytes.length;
  });
  for (const line of ['a\n', 'b\n', 'c\n']) sink.write(line);
  assert.equal(text, '');
  turn();
  assert.deepEqual([text, writes()], ['a\nb\nc\n', 1]);
});

test('a reader of a few bytes at a time gets each line once', () => {
  let text = '';
  let calls = 0;
  const { sink, turn } = fakeSink((bytes) => {
    calls += 1;
    if (calls % 3 === 0) throw failure('EAGAIN');
    const taken = bytes.subarray(0, 4);
    text += taken.toString();
    return taken.length;
  });
  const lines = Array.from({ length: 50 }, (_, i) => `line ${i}\n`);
  for (const line of lines) sink.write(line);
  for (let i = 0; i < 200; i += 1) turn();
  assert.equal(text, lines.join(''));
});

test('a stopped reader costs bounded memory and gets the number of dropped lines', () => {
  let stuck = true;
  let text = '';
  const { sink, turn } = fakeSink((bytes) => {
    if (stuck) throw failure('EAGAIN');
    text += bytes.toString();
    return bytes.length;
  });
  const line = `${'x'.repeat(1023)}\n`;
  const fit = MAX_BUFFERED_BYTES / line.length;
  for (let i = 0; i < fit + 10; i += 1) sink.write(line);
  turn();
  stuck = false;
  turn();
  sink.write('after\n');
  turn();
  assert.equal(text, `${line.repeat(fit)}dropped 10\nafter\n`);
});

test('lines are dropped while the disk is full', () => {
  let full = true;
  let text = '';
  const { sink, turn } = fakeSink((bytes) => {
    if (full) throw failure('ENOSPC');
    text += bytes.toString();
    return bytes.length;
  });
  sink.write('a\n');
  sink.write('b\n');
  turn();
  full = false;
  sink.write('c\n');
  turn();
  assert.equal(text, 'dropped 2\nc\n');
});

test('nothing is written after the reader has closed the pipe', () => {
  const { sink, turn, writes } = fakeSink(() => {
    throw failure('EPIPE');
  });
  sink.write('a\n');
  turn();
  sink.write('b\n');
  turn();
  assert.equal(writes(), 1);
});

test('closing writes the buffer and waits only a short time for a stopped reader', () => {
  const written: string[] = [];
  const good = fakeSink((bytes) => written.push(bytes.toString()) * bytes.length);
  good.sink.write('last\n');
  good.sink.close();
  assert.deepEqual(written, ['last\n']);

  const stuck = fakeSink(() => {
    throw failure('EAGAIN');
  });
  stuck.sink.write('lost\n');
  stuck.sink.close();
  assert.ok(stuck.pauses() > 1 && stuck.pauses() < 100);
});

test('a file is appended to', () => {
  const path = join(folder, 'append.log');
  for (const line of ['one\n', 'two\n']) {
    const sink = openSink(path, notice);
    sink.write(line);
    sink.close();
  }
  assert.equal(readFileSync(path, 'utf8'), 'one\ntwo\n');
});

describe('standard output', () => {
  const script = `
    import { openSink } from ${JSON.stringify(new URL('./sink.ts', import.meta.url).href)};
    const sink = openSink('stdout', () => 'dropped');
    process.on('exit', () => sink.close());
    for (let i = 0; i < 20000; i += 1) sink.write('line ' + i + '\\n');
    process.exit(0);`;
  const expected = Array.from({ length: 20000 }, (_, i) => `line ${i}\n`).join('');

  test('as a pipe with a slow reader gets every line before the program exits', () => {
    // A shell makes a real pipe, while stdio pipes of Node.js are sockets. A pipe buffers less than 220 kB.
    const run = spawnSync('sh', [
      '-c',
      '"$0" --input-type=module -e "$1" | (sleep 0.2; cat)',
      process.execPath,
      script,
    ]);
    assert.equal(run.stdout.toString(), expected);
  });

  test('as a file opened for appending keeps its content', () => {
    const path = join(folder, 'redirected.log');
    nodeFs.writeFileSync(path, 'before\n');
    spawnSync('sh', ['-c', '"$0" --input-type=module -e "$1" >> "$2"', process.execPath, script, path]);
    assert.equal(readFileSync(path, 'utf8'), `before\n${expected}`);
  });
});
