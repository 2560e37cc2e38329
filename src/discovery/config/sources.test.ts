import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ScriptedSource } from '../../sources/testing/scripted.ts';
import { resource } from '../../store/testing/documents.ts';
import { createSources } from './sources.ts';

test('sources are open when each has been read once, even when one fails afterwards', async () => {
  const [files, api] = ['files', 'api'].map((id) => new ScriptedSource({ id, cluster: 'c' }));
  assert.ok(files !== undefined && api !== undefined);
  const sources = createSources([files, api]);
  let opened = false;
  const opening = sources
    .open({ sinkOf: () => ({ apply: () => {}, replace: () => {}, changing: () => {} }), removed: () => {} })
    .then(() => {
      opened = true;
    });
  const synced = async () => {
    await nextTurn();
    return [opened, ...sources.status().map((each) => each.synced)];
  };
  assert.deepEqual(await synced(), [false, false, false]);
  files.list();
  files.disconnect('connection refused');
  assert.deepEqual(await synced(), [false, true, false]);
  api.list();
  await opening;
  assert.deepEqual(await synced(), [true, true, true]);
  assert.deepEqual(sources.status()[0]?.health, { ok: false, reason: 'connection refused', since: 0 });
});

test('sources are added, removed and replaced; a replaced one goes on until the new one has been read', async () => {
  const files = new ScriptedSource({ id: 'files', cluster: 'c' });
  const sources = createSources([files]);
  const lines: string[] = [];
  const opening = sources.open({
    sinkOf: ({ id }) => ({
      apply: () => void lines.push(`${id} changes`),
      replace: () => void lines.push(`${id} lists`),
      changing: () => {},
    }),
    removed: ({ id }) => void lines.push(`${id} is gone`),
  });
  files.list();
  await opening;
  const states = () => sources.status().map(({ id, synced }) => `${id} ${synced}`);
  const [east, next] = [1, 2].map(() => new ScriptedSource({ id: 'east', cluster: 'e' }));
  assert.ok(east !== undefined && next !== undefined);
  const adding = sources.add(east);
  assert.deepEqual(states(), ['files true', 'east false']);
  east.list();
  await adding;
  assert.deepEqual(states(), ['files true', 'east true']);
  const replacing = sources.add(next);
  next.set(resource('Service', 'a', 1));
  await nextTurn();
  east.set(resource('Service', 'b', 1));
  assert.deepEqual(states(), ['files true', 'east true']);
  assert.deepEqual(sources.status()[1]?.health, {
    ok: false,
    reason: 'its replacement is not in force yet: it is being read',
  });
  assert.deepEqual(lines, ['files lists', 'east lists', 'east changes']);
  next.list();
  await replacing;
  east.set(resource('Service', 'c', 1));
  await assert.rejects(
    sources.add(new ScriptedSource({ id: 'east', cluster: 'w' })),
    /expected source \w+ to be of cluster e/,
  );
  await sources.remove('east');
  await sources.remove('east');
  next.remove('Service/ns/a');
  assert.deepEqual(states(), ['files true']);
  assert.deepEqual(lines, ['files lists', 'east lists', 'east changes', 'east lists', 'east is gone']);
  assert.throws(() => createSources([files, files]), /the same id/);
});

test('a source that is removed, added and removed again within a moment is gone, and closed', async () => {
  const lines: string[] = [];
  const sources = createSources([]);
  await sources.open({
    sinkOf: ({ id }) => ({
      apply: () => void lines.push(`${id} changes`),
      replace: () => void lines.push(`${id} lists`),
      changing: () => {},
    }),
    removed: ({ id }) => void lines.push(`${id} is gone`),
  });
  const [first, second] = [1, 2].map(() => new ScriptedSource({ id: 'east', cluster: 'e' }));
  assert.ok(first !== undefined && second !== undefined);
  const adding = sources.add(first);
  first.list();
  await adding;
  const closed = new Set<ScriptedSource>();
  for (const source of [first, second]) {
    // Slower than those who add and remove.
    source.close = async () => {
      await nextTurn();
      closed.add(source);
    };
  }
  await Promise.all([sources.remove('east'), sources.add(second), sources.remove('east')]);
  first.list();
  second.list();
  await nextTurn();
  assert.deepEqual(sources.status(), []);
  assert.deepEqual(lines, ['east lists', 'east is gone', 'east is gone']);
  assert.deepEqual([...closed], [first, second]);
});

test('a source that was read stays in force when the next one comes while the one before it is closed', async () => {
  const lines: string[] = [];
  const sources = createSources([]);
  await sources.open({
    sinkOf: () => ({
      apply: (events) =>
        void lines.push(...events.map((event) => ('resource' in event ? event.resource.meta.name : ''))),
      replace: ({ events }) => void lines.push(`${events.length} listed`),
      changing: () => {},
    }),
    removed: () => {},
  });
  const [first, second, third] = [1, 2, 3].map(() => new ScriptedSource({ id: 'east', cluster: 'e' }));
  assert.ok(first !== undefined && second !== undefined && third !== undefined);
  const adding = sources.add(first);
  first.list();
  await adding;
  const closing = Promise.withResolvers<void>();
  first.close = () => closing.promise;
  const replacing = sources.add(second);
  await nextTurn();
  second.list();
  await nextTurn();
  // It is never read.
  void sources.add(third);
  await nextTurn();
  closing.resolve();
  await replacing;
  first.set(resource('Service', 'of-first', 1));
  second.set(resource('Service', 'of-second', 1));
  assert.deepEqual(lines, ['0 listed', '0 listed', 'of-second']);
  await sources.close();
  third.list();
  await nextTurn();
  assert.equal(lines.length, 3);
});
