import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../core/clock.ts';
import { CtlError } from '../core/errors.ts';
import { defaultMeshConfig, type MeshConfig, parseMeshConfig } from '../resources/index.ts';
import { keyOf } from '../resources/kinds/types.ts';
import { parseConfigText } from './config-text.ts';
import { createFileValue } from './file-value.ts';
import { createMockSource } from './mock.ts';

const NOT_UTF8 = 'expected UTF-8: some bytes are not valid';

test('the mock registry lists services with pods and endpoints, then is synced', async () => {
  const seen: string[] = [];
  const source = createMockSource({ cluster: 'c', clock: systemClock });
  source.start({
    apply: () => assert.fail('nothing changes'),
    replace: ({ events }) => {
      for (const event of events) seen.push(event.type === 'set' ? keyOf(event.resource) : event.type);
    },
    changing: () => {},
  });
  await source.synced;
  for (const key of ['Service/default/hello', 'EndpointSlice/default/world-1', 'Pod/default/world-v2']) {
    assert.ok(seen.includes(key), key);
  }
});

test('a configuration file: default without it, followed, last good kept, one warning', async (context) => {
  const dir = await mkdtemp(join(tmpdir(), 'meshd-value-'));
  const path = join(dir, 'mesh');
  const lines: string[] = [];
  const values: MeshConfig[] = [];
  let wake = () => {};
  const note = (message: string) => {
    lines.push(message);
    wake();
  };
  const file = createFileValue({
    path,
    what: 'mesh configuration',
    read: (text) => parseConfigText(text, parseMeshConfig),
    defaultValue: defaultMeshConfig(),
    onValue: (value) => {
      values.push(value);
      wake();
    },
    log: { debug: () => {}, info: note, warn: note, error: note },
    clock: systemClock,
    resyncMs: 0,
  });
  context.after(async () => {
    await file.close();
    await rm(dir, { recursive: true });
  });
  const until = async (what: string, condition: () => boolean) => {
    const deadline = Date.now() + 60_000;
    while (!condition()) {
      assert.ok(Date.now() < deadline, `never: ${what}; ${lines.join('; ')}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 200);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  };
  const start = await file.start();
  assert.deepEqual([start.rootNamespace, start.connectTimeout, start.enableAutoMtls], ['', 10_000, true]);
  await writeFile(path, 'connectTimeout: 3s\nsomething: {else: 1}\ndefaultConfig: {concurrency: 2, other: 1}\n');
  await until('a value', () => values.length === 1);
  assert.equal(file.value().connectTimeout, 3_000);
  assert.equal(lines.filter((line) => line.includes('defaultConfig.other, something')).length, 1);
  await writeFile(join(dir, 'next'), 'rootNamespace: x\nconnectTimeout: soon\n');
  await rename(join(dir, 'next'), path);
  await until('a problem', () => file.problem() !== undefined);
  assert.deepEqual([file.problem()?.field, file.problem()?.origin.line], ['connectTimeout', 2]);
  assert.equal(file.value().connectTimeout, 3_000);
  await rm(path);
  await until('gone', () => lines.some((line) => line.includes('no longer exists')));
  await writeFile(path, 'connectTimeout: 4s\n');
  await until('a value', () => file.value().connectTimeout === 4_000);
  assert.equal(file.problem(), undefined);
  await writeFile(path, Buffer.concat([Buffer.from('connectTimeout: 9s\nrootNamespace: '), Buffer.from([0xe4, 0x0a])]));
  await until('a problem', () => file.problem() !== undefined);
  assert.deepEqual([file.problem()?.message, file.problem()?.origin.line], [NOT_UTF8, 2]);
  assert.ok(
    lines.some((line) => line.includes(`${path}:2: mesh configuration: ${NOT_UTF8}; the last good one stays in force`)),
  );
  assert.equal(file.value().connectTimeout, 4_000);
  await writeFile(path, 'connectTimeout: 4s\n');
  await until('no problem', () => file.problem() === undefined);
});

type Prepare = (path: string) => Promise<unknown>;
const UNUSABLE: Readonly<Record<string, readonly [Prepare, RegExp]>> = {
  'two documents': [
    (path) => writeFile(path, 'a: 1\n---\nb: 2\n'),
    /mesh:2: mesh configuration: expected one document/,
  ],
  'a tab': [(path) => writeFile(path, 'a:\n\tb: 1\n'), /mesh:2: mesh configuration: expected YAML: /],
  'a bad duration': [
    (path) => writeFile(path, 'rootNamespace: x\nconnectTimeout: soon\n'),
    /mesh:2: connectTimeout: mesh configuration: expected a duration/,
  ],
  'a second document': [
    (path) => writeFile(path, 'rootNamespace: x\n---\nrootNamespace: y\n'),
    /mesh:2: mesh configuration: /,
  ],
  'a list': [(path) => writeFile(path, '- rootNamespace: x\n'), /mesh:1: mesh configuration: expected an object/],
  'no UTF-8': [(path) => writeFile(path, Buffer.from([0xe4])), /mesh:1: mesh configuration: expected UTF-8/],
  'a directory in its place': [(path) => mkdir(path), /mesh: mesh configuration: expected a file, got a directory$/],
  'a dangling link': [
    (path) => symlink('nowhere', path),
    /mesh: mesh configuration: expected a file, got a dangling symbolic link$/,
  ],
  'a link to itself': [(path) => symlink('mesh', path), /mesh: mesh configuration: expected a readable file: ELOOP$/],
  'a file where a folder should be': [
    async (path) => {
      await rm(join(path, '..'), { recursive: true });
      await writeFile(join(path, '..'), '');
    },
    /mesh: mesh configuration: expected a readable file: ENOTDIR$/,
  ],
  'a file that is too large': [
    (path) => writeFile(path, Buffer.alloc(4 * 1024 * 1024 + 1, '#')),
    /mesh: mesh configuration: expected a file of at most 4194304 bytes, got 4194305 bytes$/,
  ],
};

for (const [what, [prepare, says]] of Object.entries(UNUSABLE)) {
  test(`a configuration file that exists at start and is unusable ends the start: ${what}`, async (context) => {
    const dir = join(await mkdtemp(join(tmpdir(), 'meshd-value-')), 'config');
    await mkdir(dir);
    const path = join(dir, 'mesh');
    await prepare(path);
    const lines: string[] = [];
    const note = (message: string) => void lines.push(message);
    const file = createFileValue({
      path,
      what: 'mesh configuration',
      read: (text) => parseConfigText(text, parseMeshConfig),
      defaultValue: defaultMeshConfig(),
      onValue: () => assert.fail('no value is expected'),
      log: { debug: () => {}, info: note, warn: note, error: note },
      clock: systemClock,
      resyncMs: 0,
    });
    context.after(async () => {
      await file.close();
      await rm(join(dir, '..'), { recursive: true });
    });
    await assert.rejects(file.start(), (error) => {
      assert.ok(error instanceof CtlError, String(error));
      assert.match(error.oneLine(), says);
      return true;
    });
    assert.deepEqual(lines, []);
  });
}
