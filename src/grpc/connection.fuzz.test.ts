/**
 * Any frames in any order, cut anywhere: a connection processes them or ends by a rule of HTTP/2, never because of a
 * bug; its memory is bounded, and every call and every write ends exactly once.
 */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import { CtlError } from '../core/errors.ts';
import * as fc from '../core/testing/properties.ts';
import { Connection } from './connection.ts';
import { FLAG_END_HEADERS, FRAME, frame, Http2Error, PREFACE, settingsFrame } from './frames/frames.ts';
import { TurnScheduler } from './limits/turn-scheduler.ts';
import { block, type Fields, number, request } from './testing/raw-client.ts';

/** A socket that accepts writes at once, or not at all. */
class FakeSocket extends Duplex {
  readonly #reads: boolean;

  constructor(reads: boolean) {
    super();
    this.#reads = reads;
  }

  override _read(): void {}

  override _write(_chunk: unknown, _encoding: string, taken: () => void): void {
    if (this.#reads) process.nextTick(taken);
  }
}

const stream = fc.oneof({ weight: 8, arbitrary: fc.nat(12) }, { weight: 1, arbitrary: fc.nat(2 ** 31 - 1) });
const flags = fc.oneof(fc.constantFrom(0, 1, 4, 5), fc.nat(255));
const bytes = fc.uint8Array({ maxLength: 40 }).map((array) => Buffer.from(array));
const amount = fc.oneof(fc.nat(10), fc.nat(2 ** 32 - 1));
const fields = fc.constantFrom<Fields>(
  request('/test.T/Any'),
  request(''),
  request('/test.T/Any', { 'x-name': 'a' }),
  { 'x-trailer': 'a' },
  { ':path': '/' },
);

const anyFrame = fc
  .tuple(fc.oneof(fc.nat(10), fc.nat(255)), flags, stream, bytes)
  .map(([type, flag, id, payload]) => frame(type, flag, id, payload));

const likelyFrame = fc.oneof(
  fc
    .tuple(fc.constantFrom(0, 1), stream, fields)
    .map(([end, id, list]) => frame(FRAME.headers, FLAG_END_HEADERS | end, id | 1, block(list))),
  fc.tuple(fc.constantFrom(0, 1), stream, bytes).map(([end, id, payload]) => frame(FRAME.data, end, id | 1, payload)),
  fc.tuple(stream, amount).map(([id, value]) => frame(FRAME.windowUpdate, 0, id, number(value))),
  fc.tuple(stream, amount).map(([id, value]) => frame(FRAME.rstStream, 0, id | 1, number(value))),
  fc.tuple(fc.nat(7), amount).map(([id, value]) => settingsFrame([[id, value]])),
  bytes.map((payload) => frame(FRAME.ping, 0, 0, Buffer.concat([payload, Buffer.alloc(8)]).subarray(0, 8))),
);

/** What the handler of a call does when data arrives. */
const DEEDS = ['write', 'end', 'fail', 'abort', 'pause', 'resume', 'retire', 'nothing'] as const;

/** Slices of one connection and the control frames that may wait behind them. */
const MAX_KEPT_BYTES = 700_000;

interface Run {
  readonly frames: readonly Buffer[];
  readonly cuts: readonly number[];
  readonly deeds: readonly (typeof DEEDS)[number][];
  readonly reads: boolean;
}

async function run({ frames, cuts, deeds, reads }: Run): Promise<void> {
  const socket = new FakeSocket(reads);
  const errors: unknown[] = [];
  let calls = 0;
  let closedCalls = 0;
  let writes = 0;
  let toldWrites = 0;
  let deed = 0;
  const connection = new Connection({
    // The connection uses only what a socket has in common with a stream.
    socket: socket as unknown as Socket,
    info: { peer: 'test', address: '10.0.0.9', secured: undefined },
    scheduler: new TurnScheduler({ now: () => 0 }),
    maxStreams: 4,
    now: () => 0,
    onStream: (call) => {
      calls++;
      call.onClose(() => closedCalls++);
      const act = (): void => {
        switch (deeds[deed++ % deeds.length]) {
          case 'write':
            writes++;
            call.write([Buffer.alloc(deed * 1000), Buffer.alloc(0)], () => toldWrites++);
            break;
          case 'end':
            call.end();
            break;
          case 'fail':
            call.end(new CtlError('internal', 'no'));
            break;
          case 'abort':
            call.abort();
            break;
          case 'pause':
            call.pause();
            break;
          case 'resume':
            call.resume();
            break;
          case 'retire':
            call.retireConnection();
        }
      };
      call.read({ data: act, ended: act });
      act();
    },
    onError: (error) => errors.push(error),
    onClose: () => {},
  });
  const all = Buffer.concat([PREFACE, settingsFrame([]), ...frames]);
  let at = 0;
  for (let index = 0; at < all.length; index++) {
    const end = at + Math.max(1, cuts[index % cuts.length] ?? 1);
    socket.emit('data', all.subarray(at, end));
    at = end;
    assert.ok(socket.writableLength < MAX_KEPT_BYTES);
  }
  await new Promise((resolve) => setImmediate(resolve));
  connection.destroy();
  assert.deepEqual(
    errors.filter((error) => !(error instanceof Http2Error)),
    [],
  );
  assert.equal(closedCalls, calls);
  assert.equal(toldWrites, writes);
}

test('any frames in any order', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        frames: fc.array(fc.oneof({ weight: 9, arbitrary: likelyFrame }, { weight: 1, arbitrary: anyFrame }), {
          maxLength: 60,
        }),
        cuts: fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 10 }),
        deeds: fc.array(fc.constantFrom(...DEEDS), { minLength: 1, maxLength: 10 }),
        reads: fc.boolean(),
      }),
      run,
    ),
    { numRuns: 1000 },
  );
});

test('any bytes after a valid beginning', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        frames: fc.array(
          fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array)),
          { maxLength: 3 },
        ),
        cuts: fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 10 }),
        deeds: fc.constant(['write'] as const),
        reads: fc.boolean(),
      }),
      run,
    ),
    { numRuns: 1000 },
  );
});
