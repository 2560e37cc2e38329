import assert from 'node:assert/strict';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { defaultMeshConfig, type MeshConfig, parseMeshConfig } from '../resources/index.ts';
import { keyOf, type ResourceEvent } from '../resources/types.ts';
import { systemClock } from './clock.ts';
import { createFileValue } from './file-value.ts';
import { startMockSource } from './mock.ts';

const NOT_UTF8 = 'expected UTF-8: there are bytes that are none';

test('the mock registry gives services with pods and endpoints, then is synced', () => {
  const seen: string[] = [];
  const note = (events: readonly ResourceEvent[]) => {
    for (const event of events) seen.push(event.type === 'set' ? keyOf(event.resource) : event.type);
  };
  startMockSource({ onEvents: note, onSynced: () => void seen.push('synced'), clock: systemClock });
  assert.equal(seen.at(-1), 'synced');
  for (const key of ['Service/default/hello', 'EndpointSlice/default/world-1', 'Pod/default/world-v2']) {
    assert.ok(seen.includes(key), key);
  }
});

test('a configuration file: default without it, followed, last good kept, unknown fields in one warning', async (context) => {
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
    parse: parseMeshConfig,
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
    const deadline = Date.now() + 10_000;
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
  await until('gone', () => lines.some((line) => line.includes('is gone')));
  await writeFile(path, 'connectTimeout: 4s\n');
  await until('a value', () => file.value().connectTimeout === 4_000);
  assert.equal(file.problem(), undefined);
  await writeFile(path, Buffer.concat([Buffer.from('connectTimeout: 9s\nrootNamespace: '), Buffer.from([0xe4, 0x0a])]));
  await until('a problem', () => file.problem() !== undefined);
  assert.deepEqual([file.problem()?.message, file.problem()?.origin.line], [NOT_UTF8, 2]);
  assert.ok(lines.some((line) => line.includes(`${path}:2: ${NOT_UTF8}; the last good one stays in force`)));
  assert.equal(file.value().connectTimeout, 4_000);
  await writeFile(path, 'connectTimeout: 4s\n');
  await until('no problem', () => file.problem() === undefined);
});
