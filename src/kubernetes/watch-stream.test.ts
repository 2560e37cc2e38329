/** One watch whose changes cannot be taken. */
import assert from 'node:assert/strict';
import type { ClientHttp2Stream } from 'node:http2';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { systemClock } from '../core/clock.ts';
import { ObjectReader } from './objects.ts';
import { type WatchContext, WatchStream } from './watch-stream.ts';

test('a watch reports nothing after changes that were not taken, not even what is buffered', async () => {
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
    changed: (_, version) => {
      versions.push(version);
      throw new Error('not taken');
    },
    bookmarked: () => undefined,
    served: () => undefined,
  };
  const response = {
    status: 200,
    headers: { 'content-type': 'application/json' },
    stream: stream as unknown as ClientHttp2Stream,
    isLost: () => false,
  };
  const watch = new WatchStream(context, response, false, { deadlineMs: 60_000, silenceMs: undefined });
  await assert.rejects(watch.ended, /not taken/);
  // Until the stream has no more to give.
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(versions, ['1']);
});
