import assert from 'node:assert/strict';
import * as nodeFs from 'node:fs';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { openRotatingSink, type RotateOptions, rotateMaxBytes } from './rotate.ts';
import { nodeSinkDeps } from './sink.ts';

const DAY_MS = 86_400_000;
let folder = '';
let time = 0;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'meshd-rotate-'));
  time = Date.UTC(2026, 0, 1);
});
afterEach(() => rmSync(folder, { recursive: true }));

function open(options: Partial<RotateOptions> = {}, deps = nodeSinkDeps) {
  const all = { path: join(folder, 'mesh.log'), maxBytes: 0, maxAgeMs: 0, maxBackups: 0, ...options };
  return openRotatingSink(
    all,
    (dropped) => `dropped ${dropped}\n`,
    () => time,
    deps,
  );
}

const contents = () =>
  Object.fromEntries(
    readdirSync(folder)
      .sort()
      .map((name) => [name, readFileSync(join(folder, name), 'utf8')]),
  );

describe('size', () => {
  test('a line that exceeds the size begins a new file; the name of the backup has its time', () => {
    const sink = open({ maxBytes: 10 });
    sink.write('12345\n');
    sink.write('123\n');
    time += 1500;
    sink.write('x\n');
    sink.close();
    assert.deepEqual(contents(), { 'mesh-2026-01-01T00-00-01.500.log': '12345\n123\n', 'mesh.log': 'x\n' });
  });

  test('a line larger than the limit has a file of its own', () => {
    const sink = open({ maxBytes: 3 });
    sink.write('123456\n');
    sink.write('a\n');
    sink.close();
    assert.deepEqual(Object.values(contents()), ['123456\n', 'a\n']);
  });

  test('content of an earlier run counts', () => {
    writeFileSync(join(folder, 'mesh.log'), 'before\n');
    const sink = open({ maxBytes: 8 });
    sink.write('after\n');
    sink.close();
    assert.deepEqual(Object.values(contents()), ['before\n', 'after\n']);
  });

  test('0 means no limit', () => {
    const sink = open();
    for (let i = 0; i < 100; i += 1) sink.write('line\n');
    sink.close();
    assert.deepEqual(Object.keys(contents()), ['mesh.log']);
  });
});

test('a file is rotated at its largest age', () => {
  const sink = open({ maxAgeMs: 30 * DAY_MS });
  sink.write('old\n');
  time += 30 * DAY_MS - 1;
  sink.write('still\n');
  time += 1;
  sink.write('new\n');
  sink.close();
  assert.deepEqual(contents(), { 'mesh-2026-01-31T00-00-00.000.log': 'old\nstill\n', 'mesh.log': 'new\n' });
});

test('the oldest surplus backups are deleted, other files are kept', () => {
  const others = ['mesh-notes.log', 'other-2020-01-01T00-00-00.000.log', 'mesh-2020-01-01T00-00-00.000.txt'];
  for (const name of others) writeFileSync(join(folder, name), 'kept');
  const sink = open({ maxBytes: 1, maxBackups: 2 });
  for (let i = 0; i < 5; i += 1) {
    sink.write(`${i}\n`);
    time += 1000;
  }
  sink.close();
  const names = Object.keys(contents()).filter((name) => !others.includes(name));
  assert.deepEqual(names, ['mesh-2026-01-01T00-00-03.000.log', 'mesh-2026-01-01T00-00-04.000.log', 'mesh.log']);
  assert.equal(contents()['mesh.log'], '4\n');
  for (const name of others) assert.equal(contents()[name], 'kept');
});

test('rotations within one millisecond lose nothing and are deleted in order', () => {
  const sink = open({ maxBytes: 1, maxBackups: 11 });
  for (let i = 0; i < 13; i += 1) sink.write(`${i}\n`);
  sink.close();
  const left = Object.values(contents()).map(Number);
  assert.deepEqual(
    left.sort((a, b) => a - b),
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
  );
});

test('a file that cannot be renamed is written further', () => {
  const renameSync = () => {
    throw new Error('read-only');
  };
  const sink = open({ maxBytes: 4 }, { ...nodeSinkDeps, fs: { ...nodeFs, renameSync } });
  for (const line of ['one\n', 'two\n', 'six\n']) sink.write(line);
  sink.close();
  assert.deepEqual(contents(), { 'mesh.log': 'one\ntwo\nsix\n' });
});

test('a size is in megabytes, or in bytes from 1048576 on, as the default is', () => {
  assert.equal(rotateMaxBytes(100), 100 * 1024 * 1024);
  assert.equal(rotateMaxBytes(104857600), 104857600);
  assert.equal(rotateMaxBytes(0), 0);
});
