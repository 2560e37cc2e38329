import assert from 'node:assert/strict';
import { chmod, mkdir, rename, rm, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { follow, service } from '../testing/followed-directory.ts';

test('follows edits, new files, new directories and deletions, reading only what changed', async (context) => {
  const { dir, is, sets, until, isSynced } = await follow(context, async (dir) => {
    await writeFile(join(dir, 'a.yaml'), service('a'));
    await writeFile(join(dir, 'b.yaml'), service('b'));
    await writeFile(join(dir, '.hidden.yaml'), service('hidden'));
    await writeFile(join(dir, 'readme.txt'), 'no');
  });
  await until('synced', isSynced);
  await is({ a: 80, b: 80 });
  sets.length = 0;
  await writeFile(join(dir, 'a.yaml'), service('a', 81));
  await is({ a: 81, b: 80 });
  assert.deepEqual(sets, ['a']);
  await mkdir(join(dir, 'deep', 'deeper'), { recursive: true });
  await writeFile(join(dir, 'deep', 'deeper', 'c.yml'), service('c'));
  await is({ a: 81, b: 80, c: 80 });
  await writeFile(join(dir, 'deep', 'deeper', 'c.yml'), service('c', 82));
  await is({ a: 81, b: 80, c: 82 });
  await unlink(join(dir, 'b.yaml'));
  await rm(join(dir, 'deep'), { recursive: true });
  await is({ a: 81 });
});

test('a renamed file is not a duplicate of itself, and its resources never disappear', async (context) => {
  const { dir, is, source, state, seen, sets } = await follow(context, async (at) => {
    await writeFile(join(at, 'a.yaml'), service('one'));
    await writeFile(join(at, 'z.yaml'), service('two'));
  });
  await is({ one: 80, two: 80 });
  await rename(join(dir, 'a.yaml'), join(dir, 'b.yaml'));
  await rename(join(dir, 'z.yaml'), join(dir, 'c.yaml'));
  await writeFile(join(dir, 'd.yaml'), service('three'));
  await is({ one: 80, two: 80, three: 80 });
  // The renamed resources belong to the new files: their edits count.
  await writeFile(join(dir, 'b.yaml'), service('one', 81));
  await is({ one: 81, two: 80, three: 80 });
  await source.close();
  assert.deepEqual(seen, []);
  assert.ok(sets.includes('three') && state.size === 3);
});

test('a file in place of the directory is reported, and what the directory gave stays in force', async (context) => {
  const { dir, warnings, until, is, state } = await follow(context, (at) =>
    writeFile(join(at, 'a.yaml'), service('one')),
  );
  await is({ one: 80 });
  await rm(dir, { recursive: true });
  await writeFile(dir, service('two'));
  await until('a warning', () => warnings.some((warning) => warning.includes('is not a directory')));
  assert.deepEqual([...state.keys()], ['one']);
  await unlink(dir);
  await mkdir(dir);
  await writeFile(join(dir, 'a.yaml'), service('one', 81));
  await is({ one: 81 });
});

test('documents of kinds that are not read are reported once', async (context) => {
  const other = (kind: string) => `apiVersion: telemetry.istio.io/v1\nkind: ${kind}\nmetadata: {name: x}\n`;
  const { dir, is, warnings } = await follow(context, (at) =>
    writeFile(join(at, 'a.yaml'), `${service('a')}---\n${other('Metering')}---\n${other('Metering')}`),
  );
  await is({ a: 80 });
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? '', /2 documents of telemetry.istio.io\/v1 Metering \(the first is .*a.yaml:6\)/);
  await writeFile(join(dir, 'a.yaml'), `${service('a', 81)}---\n${other('Metering')}---\n${other('Other')}`);
  await is({ a: 81 });
  assert.equal(warnings.length, 2);
  assert.match(warnings[1] ?? '', /1 document of telemetry.istio.io\/v1 Other/);
});

test('an atomic rename replaces a file, and its resources never disappear', async (context) => {
  const { dir, base, is, state } = await follow(context, (dir) => writeFile(join(dir, 'a.yaml'), service('a')));
  await is({ a: 80 });
  for (let port = 81; port < 85; port++) {
    await writeFile(join(base, 'next'), service('a', port));
    await rename(join(base, 'next'), join(dir, 'a.yaml'));
    await is({ a: port });
    assert.equal(state.size, 1);
  }
});

test('reading a file of thousands of refused documents leaves time for other work', async (context) => {
  const bad = 'apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: x}]}\n---\n';
  let turns = 0;
  const { until, isSynced, problems } = await follow(context, (dir) =>
    writeFile(join(dir, 'a.yaml'), bad.repeat(2000) + service('a')),
  );
  const count = (): void => {
    turns++;
    if (!isSynced()) setImmediate(count);
  };
  setImmediate(count);
  await until('read', () => problems.size > 0);
  assert.ok(turns > 20, `${turns} turns of the event loop`);
});

test('a bad file between good ones keeps its last good version, and is resolved', async (context) => {
  const { dir, is, problems, until } = await follow(context, (dir) => writeFile(join(dir, 'a.yaml'), service('a')));
  await is({ a: 80 });
  await writeFile(join(dir, 'a.yaml'), 'a: [');
  await until('a problem', () => problems.size === 1);
  await writeFile(join(dir, 'b.yaml'), service('b'));
  await is({ a: 80, b: 80 });
  await writeFile(join(dir, 'a.yaml'), service('a', 81));
  await is({ a: 81, b: 80 });
  await until('no problem', () => problems.size === 0);
});

test('a file that is not UTF-8 is refused with its line and keeps its resources; U+FFFD is valid', async (context) => {
  const { dir, is, problems, until } = await follow(context, (at) => writeFile(join(at, 'a.yaml'), service('a')));
  await is({ a: 80 });
  await writeFile(join(dir, 'a.yaml'), Buffer.from(`${service('a', 81)}# M\xfcnchen\n`, 'latin1'));
  await until('a problem', () => problems.size === 1);
  assert.deepEqual([...problems], [[join(dir, 'a.yaml'), 'expected UTF-8: some bytes are not valid']]);
  await is({ a: 80 });
  await writeFile(join(dir, 'a.yaml'), `${service('a', 82)}# \ufffd\n`);
  await is({ a: 82 });
  assert.equal(problems.size, 0);
});

test('an unreadable file is a problem and keeps its resources', {
  skip: process.getuid?.() === 0,
}, async (context) => {
  const { dir, is, problems, until, state } = await follow(context, (dir) =>
    writeFile(join(dir, 'a.yaml'), service('a')),
  );
  await is({ a: 80 });
  await chmod(join(dir, 'a.yaml'), 0);
  await until('a problem', () => problems.size === 1);
  assert.equal(state.get('a'), 80);
});

const UNREADABLE_AT_START: Readonly<Record<string, { make: (dir: string) => Promise<unknown>; says: RegExp }>> = {
  'the directory is a file': {
    make: async (dir) => {
      await rm(dir, { recursive: true });
      await writeFile(dir, 'x');
    },
    says: /config: the directory of --configDir is not a directory$/,
  },
  'a file is larger than what is read': {
    make: (dir) => writeFile(join(dir, 'large.yaml'), Buffer.alloc(16 * 1024 * 1024 + 1)),
    says: /large\.yaml: expected a file of at most 16777216 bytes, got 16777217 bytes$/,
  },
};

for (const [what, { make, says }] of Object.entries(UNREADABLE_AT_START)) {
  test(`a document that cannot be read at start ends the start: ${what}`, async (context) => {
    const { until, failed, isSynced, state } = await follow(context, async (dir) => {
      await writeFile(join(dir, 'good.yaml'), service('good'));
      await make(dir);
    });
    await until('a failure', () => failed() !== undefined);
    assert.match(failed() ?? '', says);
    assert.equal(isSynced(), false);
    assert.equal(state.size, 0);
  });
}
