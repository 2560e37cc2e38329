import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fakeClock } from '../core/testing/fake-clock.ts';
import { eventId, type ResourceEvent } from '../resources/index.ts';
import { createDirectorySource } from './directory/directory.ts';
import { answer, COLLECTIONS, first, played, ROUTES } from './mcp/testing/played-source.ts';
import { service } from './testing/followed-directory.ts';
import { UnappliedEvents } from './unapplied-events.ts';

/** A sink that fails as often as it is told, and what it was sent. */
function failingSink(times: number) {
  const sent: string[][] = [];
  const applyInSlices = async (events: readonly ResourceEvent[]): Promise<void> => {
    sent.push(events.map(eventId));
    if (sent.length <= times) throw new Error('a bug');
  };
  return { sent, applyInSlices };
}

const gone = (key: string, eventTime: number): ResourceEvent => ({ type: 'delete', key, eventTime });

test('events that were not applied come first, but for newer ones of the same id', () => {
  const unapplied = new UnappliedEvents();
  unapplied.send([gone('a', 1), gone('b', 1), gone('c', 1), gone('d', 1)]).failed();
  assert.deepEqual([unapplied.size, unapplied.named()], [4, 'a, b, c and 1 more']);
  const sending = unapplied.send([gone('b', 2), gone('e', 2)]);
  assert.deepEqual(sending.events, [gone('a', 1), gone('c', 1), gone('d', 1), gone('b', 2), gone('e', 2)]);
  sending.failed();
  assert.equal(unapplied.size, 5);
  assert.deepEqual(unapplied.send([]).events, sending.events);
});

test('an event that was not applied is not sent again after a newer one of its id', () => {
  const unapplied = new UnappliedEvents();
  unapplied.send([gone('a', 1), gone('b', 1)]).failed();
  unapplied.send([gone('a', 2)]).applied();
  assert.deepEqual([unapplied.size, unapplied.send([]).events], [0, []]);
  const [older, newer] = [unapplied.send([gone('a', 3), gone('b', 3)]), unapplied.send([gone('a', 4)])];
  newer.applied();
  older.failed();
  const again = unapplied.send([]);
  assert.deepEqual(again.events, [gone('b', 3)]);
  const newest = unapplied.send([gone('b', 4)]);
  newest.failed();
  again.applied();
  assert.deepEqual(unapplied.send([]).events, [gone('b', 4)]);
});

test('an event that was not applied is not sent again while a newer one of its id is on its way', () => {
  const unapplied = new UnappliedEvents();
  unapplied.send([gone('a', 1), gone('b', 1)]).failed();
  const newer = unapplied.send([gone('a', 2)]);
  assert.deepEqual(unapplied.send([gone('c', 1)]).events, [gone('c', 1)]);
  newer.failed();
  assert.deepEqual(unapplied.send([]).events, [gone('b', 1), gone('a', 2)]);
});

test('a configuration server is not synced before what could not be applied is, though it repeats nothing', async () => {
  const { sent, applyInSlices } = failingSink(2);
  const { streams, clock, lines, isSynced } = played(undefined, false, 100_000, applyInSlices);
  const others = COLLECTIONS.filter((each) => each !== ROUTES);
  for (const attempt of [0, 1]) {
    const stream = await first(streams, attempt);
    stream.handler.opened();
    for (const collection of others) answer(stream, collection);
    answer(stream, ROUTES, ['ns/a']);
    await clock.advance(0);
    assert.equal(isSynced(), false);
    await clock.advance(10_000);
  }
  const stream = await first(streams, 2);
  stream.handler.opened();
  for (const collection of others) answer(stream, collection);
  answer(stream, ROUTES, ['ns/a']);
  await clock.advance(0);
  assert.deepEqual(sent, [['VirtualService/ns/a'], ['VirtualService/ns/a'], ['VirtualService/ns/a']]);
  assert.equal(isSynced(), true);
  assert.ok(lines.some((line) => line.includes('cannot apply VirtualService/ns/a: a bug')));
});

/** A source of a directory with a file, and a sink that fails as often as it is told. */
async function followed(context: TestContext, failures: number) {
  const dir = await mkdtemp(join(tmpdir(), 'meshd-unapplied-'));
  context.after(() => rm(dir, { recursive: true }));
  await writeFile(join(dir, 'a.yaml'), service('a'));
  const clock = fakeClock();
  const lines: string[] = [];
  const log = (line: string): void => void lines.push(line);
  const logger = { debug: log, info: log, warn: log, error: log };
  const source = createDirectorySource({ dir, cluster: 'c', log: logger, clock, resyncMs: 0 });
  const { sent, applyInSlices } = failingSink(failures);
  let isSynced = false;
  void source.synced.then(() => {
    isSynced = true;
  });
  source.start({
    apply: () => assert.fail(),
    applyInSlices,
    replace: () => assert.fail(),
    changing: () => {},
  });
  context.after(() => source.close());
  const until = async (isMet: () => boolean): Promise<void> => {
    for (let round = 0; round < 1000 && !isMet(); round++) await clock.advance(100);
  };
  return { dir, clock, lines, sent, isSynced: () => isSynced, until };
}

test('a directory is not synced before what could not be applied is, and sends it again by itself', async (context) => {
  const { clock, lines, sent, isSynced, until } = await followed(context, 2);
  await until(() => sent.length > 0);
  await clock.advance(0);
  assert.equal(isSynced(), false);
  await until(isSynced);
  assert.deepEqual(sent, [['Service/default/a'], ['Service/default/a'], ['Service/default/a']]);
  assert.ok(lines.some((line) => line.startsWith('cannot apply Service/default/a: a bug; trying again')));
});

test('a directory of which nothing can be applied is tried again as rarely after many changes', async (context) => {
  const { dir, clock, sent, until } = await followed(context, Number.POSITIVE_INFINITY);
  for (let change = 0; change < 12; change++) {
    const before = sent.length;
    await writeFile(join(dir, `b${change}.yaml`), service(`b${change}`));
    await until(() => sent.length > before && sent.at(-1)?.includes(`Service/default/b${change}`) === true);
  }
  const pending = clock.pending().length;
  assert.ok(pending < 6, `${pending} timers`);
});
