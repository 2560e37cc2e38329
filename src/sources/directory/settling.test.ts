import assert from 'node:assert/strict';
import { appendFile, mkdir, rm, stat, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { follow, service } from '../testing/followed-directory.ts';

test('a batch states since when it has been quiet; a state that only lasted is not announced', async (context) => {
  const clock = fakeClock();
  const { dir, quiet, signs, state, is } = await follow(
    context,
    (dir) => writeFile(join(dir, 'a.yaml'), service('a')),
    clock,
  );
  const passing = (condition: () => boolean) => waitUntil(condition, { step: async () => clock.pass(1) });
  await is({ a: 80 });
  await writeFile(join(dir, 'notes.txt'), 'no resource');
  await writeFile(join(dir, 'b.yaml'), service('b'));
  await passing(() => signs.length > 0);
  assert.equal(state.has('b'), false);
  await passing(() => state.has('b'));
  await unlink(join(dir, 'a.yaml'));
  await passing(() => !state.has('a'));
  const [first, ofEvent = 0, ofLasting] = quiet;
  assert.deepEqual([first, ofLasting], [0, 0]);
  assert.ok(ofEvent >= 10);
});

test('half-written files: nothing is lost, and nothing is reported that is completed soon', async (context) => {
  const { dir, is, problems, state } = await follow(context, (dir) =>
    writeFile(join(dir, 'a.yaml'), `${service('a')}---\n${service('b')}`),
  );
  await is({ a: 80, b: 80 });
  await writeFile(join(dir, 'a.yaml'), '');
  await new Promise((resolve) => setTimeout(resolve, 20));
  await appendFile(join(dir, 'a.yaml'), `${service('a', 81)}---\nkind: [`);
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(state.size, 2);
  await writeFile(join(dir, 'a.yaml'), `${service('a', 82)}---\n${service('b', 82)}`);
  await is({ a: 82, b: 82 });
  assert.equal(problems.size, 0);
});

test('an empty file counts later than other states, because slow writers empty first', async (context) => {
  const { dir, is, state } = await follow(context, (dir) => writeFile(join(dir, 'a.yaml'), service('a')));
  await is({ a: 80 });
  await writeFile(join(dir, 'a.yaml'), '');
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.equal(state.size, 1);
  await is({});
});

test('a half-written character is waited for', async (context) => {
  const { dir, is, seen } = await follow(context, (at) => writeFile(join(at, 'a.yaml'), service('a')));
  await is({ a: 80 });
  const whole = Buffer.from(`${service('a', 81)}# \u00fc\n`);
  await writeFile(join(dir, 'a.yaml'), whole.subarray(0, -2));
  await new Promise((resolve) => setTimeout(resolve, 25));
  await appendFile(join(dir, 'a.yaml'), whole.subarray(-2));
  await is({ a: 81 });
  assert.deepEqual(seen, []);
});

test('a directory that disappears keeps its resources in force, and is followed when it is back', async (context) => {
  const { dir, is, until, state, warnings, source } = await follow(context, (dir) =>
    writeFile(join(dir, 'a.yaml'), service('a')),
  );
  await is({ a: 80 });
  assert.deepEqual(source.health(), { ok: true });
  await rm(dir, { recursive: true });
  await until('a warning', () => warnings.some((line) => line.includes('stays in force')));
  assert.equal(state.size, 1);
  assert.partialDeepStrictEqual(source.health(), { ok: false, reason: `config directory ${dir} does not exist` });
  await mkdir(dir);
  await writeFile(join(dir, 'a.yaml'), service('a', 81));
  await is({ a: 81 });
  assert.deepEqual([warnings.length, source.health()], [1, { ok: true }]);
  await writeFile(join(dir, 'a.yaml'), service('a', 82));
  await is({ a: 82 });
});

test('files that disappear just before their directory do not count as deleted', async (context) => {
  const clock = fakeClock();
  const { base, dir, until, state, deletes, source } = await follow(
    context,
    async (at) => {
      for (const name of ['a', 'b']) await writeFile(join(at, `${name}.yaml`), service(name));
    },
    clock,
  );
  const untilTimePasses = (what: string, condition: () => boolean) =>
    until(what, () => {
      clock.pass(10);
      return condition();
    });
  await until('a first reading', () => state.size === 2);
  await unlink(join(dir, 'a.yaml'));
  await writeFile(join(dir, 'b.yaml'), service('b', 81));
  await untilTimePasses('a look at both', () => state.get('b') === 81);
  await rm(dir, { recursive: true });
  await untilTimePasses('a warning', () => !source.health().ok);
  // Time for scans for missing files, and for reading.
  for (let round = 0; round < 50; round++) {
    clock.pass(20);
    await stat(base);
  }
  await mkdir(dir);
  for (const name of ['a', 'b']) await writeFile(join(dir, `${name}.yaml`), service(name, 82));
  await untilTimePasses('the directory is back', () => state.get('a') === 82 && state.get('b') === 82);
  assert.deepEqual(deletes, []);
});

test('an empty directory in place of the one that was read deletes nothing until it has a file', async (context) => {
  const { dir, is, until, state, source, warnings } = await follow(context, async (at) => {
    for (const name of ['a', 'b']) await writeFile(join(at, `${name}.yaml`), service(name));
  });
  await is({ a: 80, b: 80 });
  await rm(dir, { recursive: true });
  await until('it is gone', () => !source.health().ok);
  await mkdir(dir);
  await until('it is back, empty', () => warnings.length === 2);
  const reason = `config directory ${dir} was replaced by an empty directory`;
  assert.equal(warnings[1], `${reason}; the last content stays in force until the directory contains a file`);
  assert.equal(state.size, 2);
  assert.partialDeepStrictEqual(source.health(), { ok: false, reason });
  await writeFile(join(dir, 'a.yaml'), service('a', 81));
  await is({ a: 81 });
  assert.deepEqual(source.health(), { ok: true });
  await unlink(join(dir, 'a.yaml'));
  await is({});
});

test('a directory that is missing at start is waited for', async (context) => {
  const { dir, is, until, warnings, isSynced } = await follow(context, (dir) => rm(dir, { recursive: true }));
  await until('a warning', () => warnings.length > 0);
  assert.match(warnings[0] ?? '', /does not exist; waiting/);
  assert.equal(isSynced(), false);
  await mkdir(dir);
  await writeFile(join(dir, 'a.yaml'), service('a'));
  await is({ a: 80 });
  await until('it is synced', isSynced);
});

test('a directory missing at start is reported again until it has been read', async (context) => {
  const clock = fakeClock();
  const { dir, until, warnings, isSynced } = await follow(context, (at) => rm(at, { recursive: true }), clock);
  await until('a warning', () => warnings.length === 1);
  for (const [seconds, after] of [
    [5, 5],
    [60, 65],
    [60, 125],
  ] as const) {
    warnings.length = 0;
    clock.pass(seconds * 1000);
    assert.deepEqual(warnings, [
      `config directory ${dir} does not exist, for ${after} s now; nothing is served until it exists`,
    ]);
  }
  await mkdir(dir);
  // Its event waits for the clock, and so does the next reminder, which scans.
  await until('synced', () => {
    clock.pass(1000);
    return isSynced();
  });
  warnings.length = 0;
  clock.pass(600_000);
  assert.deepEqual(warnings, []);
});
