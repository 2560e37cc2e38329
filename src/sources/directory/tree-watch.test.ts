import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createTreeWatch } from './tree-watch.ts';

test('a directory that a scan adds after the watch was closed causes no events', async (context) => {
  const dir = await mkdtemp(join(tmpdir(), 'meshd-watch-'));
  const events: string[] = [];
  const received = Promise.withResolvers<void>();
  const fail = (error: unknown) => assert.fail(String(error));
  const closed = createTreeWatch({ onEvent: () => void events.push('closed'), onUnavailable: fail });
  const open = createTreeWatch({
    onEvent: () => {
      events.push('open');
      received.resolve();
    },
    onUnavailable: fail,
  });
  // The watches keep no process alive.
  const alive = setInterval(() => {}, 1000);
  context.after(async () => {
    clearInterval(alive);
    open.close();
    closed.close();
    await rm(dir, { recursive: true });
  });
  closed.close();
  closed.add(dir, 'identity');
  // Watches of one directory receive its events in the order in which they were added.
  open.add(dir, 'identity');
  await writeFile(join(dir, 'a.yaml'), '');
  await received.promise;
  assert.ok(!events.includes('closed'), events.join());
});
