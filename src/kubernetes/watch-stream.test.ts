/** Watches whose changes cannot be taken, or not at once. */
import assert from 'node:assert/strict';
import type { ClientHttp2Stream } from 'node:http2';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { type Clock, systemClock } from '../core/clock.ts';
import { ObjectReader } from './objects.ts';
import { type WatchContext, WatchStream } from './watch-stream.ts';

/** A watch that receives two changes, and the versions that it reports. */
function watchOfTwo(fields: Partial<WatchContext<string>> & { readonly clock?: Clock }) {
  const stream = new PassThrough();
  for (const version of ['1', '2']) {
    const object = { metadata: { name: 'a', resourceVersion: version } };
    stream.write(`${JSON.stringify({ type: 'MODIFIED', object })}\n`);
  }
  const versions: string[] = [];
  const context: WatchContext<string> = {
    reader: new ObjectReader({ group: 'x', version: 'v1', plural: 'as', kind: 'A', namespaced: false }),
    clock: systemClock,
    convert: ({ object }) => object.metadata.name,
    listed: () => undefined,
    changed: (_, version) => void versions.push(version),
    bookmarked: () => undefined,
    served: () => undefined,
    pause: () => 0,
    ...fields,
  };
  const response = {
    status: 200,
    headers: { 'content-type': 'application/json' },
    stream: stream as unknown as ClientHttp2Stream,
    isLost: () => false,
  };
  const watch = new WatchStream(context, response, false, { deadlineMs: 60_000, silenceMs: undefined });
  return { watch, stream, versions };
}

test('a watch reports nothing after changes that were not taken, not even what is buffered', async () => {
  const reported: string[] = [];
  const { watch } = watchOfTwo({
    changed: (_, version) => {
      reported.push(version);
      throw new Error('not taken');
    },
  });
  await assert.rejects(watch.ended, /not taken/);
  // Until the stream has no more to give.
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(reported, ['1']);
});

test('a watch pauses where it is told to, and what comes meanwhile waits', async () => {
  const timers: { readonly ms: number; readonly run: () => void }[] = [];
  const clock: Clock = {
    now: () => 0,
    setTimer: (ms, run) => {
      timers.push({ ms, run });
      return { cancel: () => undefined };
    },
  };
  const read: (readonly [number, number])[] = [];
  const { stream, versions } = watchOfTwo({
    clock,
    pause: (events, bytes) => {
      read.push([events, bytes]);
      return read.length === 1 ? 777 : 0;
    },
  });
  while (versions.length === 0) await new Promise((resolve) => setImmediate(resolve));
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(versions, ['1']);
  assert.ok(stream.isPaused());
  timers.find(({ ms }) => ms === 777)?.run();
  while (versions.length === 1) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(versions, ['1', '2']);
  assert.deepEqual(
    read.map(([events]) => events),
    [1, 1],
  );
});
