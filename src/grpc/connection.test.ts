/**
 * The memory of a connection whose client does not read, with a socket that accepts nothing until the test lets it, and
 * a fake clock.
 */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { Connection } from './connection.ts';
import {
  FLAG_END_HEADERS,
  FRAME,
  FRAME_HEADER_BYTES,
  frame,
  PREFACE,
  SETTING,
  settingsFrame,
} from './frames/frames.ts';
import { TurnScheduler } from './limits/turn-scheduler.ts';
import type { Stream } from './streams/stream.ts';
import { block, number, request } from './testing/raw-client.ts';
import type { SendResult } from './types.ts';

/** A socket that accepts no writes until it is released. */
class StuckSocket extends Duplex {
  writes = 0;
  readonly #taken: (() => void)[] = [];

  override _read(): void {}

  override _write(_chunk: unknown, _encoding: string, taken: () => void): void {
    this.#taken.push(taken);
  }

  override write(...args: unknown[]): boolean {
    this.writes++;
    return Reflect.apply(super.write, this, args);
  }

  /** Accepts writes for a while. */
  async release(): Promise<void> {
    for (let taken = this.#taken.pop(); taken !== undefined; taken = this.#taken.pop()) {
      taken();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

const PATIENCE = { keepaliveIntervalMs: 1e9, keepaliveTimeoutMs: 1e9, idleMs: 1e9, sendTimeoutMs: 5000 };

interface Setting {
  readonly secured?: boolean;
  readonly maxStreams?: number;
  readonly address?: string;
  readonly clock?: { now: number };
  readonly scheduler?: TurnScheduler;
  readonly onStream?: (stream: Stream) => void;
}

function connected({
  secured = false,
  maxStreams = 100,
  address = '10.0.0.9',
  clock = { now: 0 },
  scheduler = new TurnScheduler({ now: () => clock.now }),
  onStream,
}: Setting = {}) {
  const socket = new StuckSocket();
  const streams: Stream[] = [];
  const errors: unknown[] = [];
  const state = { closed: false };
  const connection = new Connection({
    // The connection uses only what a socket has in common with a stream.
    socket: socket as unknown as Socket,
    info: { peer: 'test', address, secured: secured ? (socket as unknown as TLSSocket) : undefined },
    scheduler,
    maxStreams,
    now: () => clock.now,
    onStream: (stream) => {
      streams.push(stream);
      onStream?.(stream);
    },
    onError: (error) => errors.push(error),
    onClose: () => {
      state.closed = true;
    },
  });
  const receive = (...frames: Buffer[]): void => {
    socket.emit('data', Buffer.concat(frames));
  };
  receive(PREFACE, settingsFrame([[SETTING.initialWindowSize, 2 ** 30]]));
  receive(frame(FRAME.windowUpdate, 0, 0, number(2 ** 30)));
  return { socket, streams, errors, clock, state, connection, receive };
}

function headers(stream: number): Buffer {
  return frame(FRAME.headers, FLAG_END_HEADERS, stream, block(request('/test.T/Any')));
}

const PING = frame(FRAME.ping, 0, 0, Buffer.alloc(8));

/** More than the slices of one connection and the control frames that may wait behind them. */
const MAX_KEPT_BYTES = 700_000;

for (const secured of [false, true])
  test(`only a slice of large responses waits in the socket, ${secured ? 'encrypted' : 'plain'}`, async () => {
    const { socket, streams, receive } = connected({ secured });
    const results: SendResult[] = [];
    for (let stream = 1; stream < 20; stream += 2) receive(headers(stream));
    for (const stream of streams) stream.write([Buffer.alloc(10_000_000)], (result) => results.push(result));
    assert.ok(socket.writableLength < MAX_KEPT_BYTES / 2, `${socket.writableLength} bytes`);
    assert.deepEqual(results, []);
  });

for (const secured of [false, true])
  test(`windows that grow in small steps cause few waiting writes, ${secured ? 'encrypted' : 'plain'}`, () => {
    const { socket, streams, receive } = connected({ secured });
    receive(settingsFrame([[SETTING.initialWindowSize, 0]]), headers(1));
    streams[0]?.write([Buffer.alloc(1_000_000)], () => {});
    const before = socket.writes;
    const update = frame(FRAME.windowUpdate, 0, 1, number(200));
    for (let round = 0; round < 100; round++) receive(...Array.from({ length: 1000 }, () => update));
    assert.ok(socket.writes - before < 1000, `${socket.writes - before} writes`);
    assert.ok(socket.writes - before > 0);
  });

test('windows that grow byte by byte within one read cause one frame (CVE-2019-9511)', () => {
  const { socket, streams, receive } = connected();
  receive(settingsFrame([[SETTING.initialWindowSize, 0]]), headers(1));
  streams[0]?.write([Buffer.alloc(1000)], () => {});
  const [writes, bytes] = [socket.writes, socket.writableLength];
  receive(...Array.from({ length: 500 }, () => frame(FRAME.windowUpdate, 0, 1, number(1))));
  assert.equal(socket.writes - writes, 1);
  assert.equal(socket.writableLength - bytes, FRAME_HEADER_BYTES + 500);
});

test('several SETTINGS within one read check each stream once', () => {
  const { socket, streams, receive } = connected({ maxStreams: 1000 });
  for (let index = 0; index < 1000; index++) receive(headers(2 * index + 1));
  let looks = 0;
  for (const stream of streams)
    Object.defineProperty(stream, 'sendWindow', {
      get: () => {
        looks++;
        return 0;
      },
    });
  receive(...Array.from({ length: 500 }, (_, index) => settingsFrame([[SETTING.initialWindowSize, index]])));
  assert.equal(looks, 1000);
  assert.equal(socket.writableEnded, false);
});

test('SETTINGS that change the windows of many streams count as several frames', () => {
  const { socket, errors, receive } = connected({ maxStreams: 1000 });
  for (let index = 0; index < 1000; index++) receive(headers(2 * index + 1));
  for (let round = 0; round < 80; round++) receive(settingsFrame([[SETTING.initialWindowSize, round]]));
  assert.equal(socket.writableEnded, false);
  for (let round = 0; round < 20; round++) receive(settingsFrame([[SETTING.initialWindowSize, round]]));
  assert.equal(socket.writableEnded, true);
  assert.match(String(errors[0]), /too many useless frames/);
});

test('SETTINGS that make a window too large end the connection', () => {
  const { errors, receive } = connected();
  receive(settingsFrame([[SETTING.initialWindowSize, 0]]), headers(1));
  receive(frame(FRAME.windowUpdate, 0, 1, number(2 ** 31 - 1)));
  assert.deepEqual(errors, []);
  receive(settingsFrame([[SETTING.initialWindowSize, 1]]));
  assert.match(String(errors[0]), /a window over 2\^31-1/);
});

test('a long read continues in later turns, in order, and others are read meanwhile', async () => {
  const clock = { now: 0 };
  const scheduler = new TurnScheduler({ now: () => clock.now });
  const opened: number[] = [];
  const onStream = (stream: Stream): void => {
    clock.now++;
    opened.push(stream.id);
  };
  const [busy, other] = [connected({ clock, scheduler, onStream }), connected({ clock, scheduler })];
  const ids = Array.from({ length: 90 }, (_, index) => 2 * index + 1);
  busy.receive(...ids.map(headers));
  const first = opened.length;
  assert.ok(first > 0 && first < ids.length / 2, `${first} calls in the first turn`);
  assert.equal(busy.socket.isPaused(), true);
  other.receive(headers(1));
  assert.equal(other.streams.length, 1);
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(opened.length > first && opened.length < ids.length, `${opened.length} calls after the second turn`);
  while (busy.socket.isPaused()) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(opened, ids);
});

test('in a turn that is used up, other callers are read and written before those that used it', async () => {
  const clock = { now: 0 };
  const scheduler = new TurnScheduler({ now: () => clock.now });
  const order: string[] = [];
  const onStream = (): void => {
    clock.now += 50;
    order.push('busy');
  };
  const many = Array.from({ length: 3 }, () => connected({ clock, scheduler, onStream }));
  const other = connected({ clock, scheduler, address: '10.0.0.1', onStream: () => order.push('other') });
  await new Promise((resolve) => setImmediate(resolve));
  for (const { receive } of many) receive(headers(1));
  other.receive(headers(1));
  assert.deepEqual(order, ['busy']);
  while (order.length < 4) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(order, ['busy', 'other', 'busy', 'busy']);
});

test('the time in which data waits for its turn does not count as time in which the client does not read', async () => {
  const clock = { now: 0 };
  const turns: (() => void)[] = [];
  const scheduler = new TurnScheduler({ now: () => clock.now, later: (run) => void turns.push(run) });
  const { socket, streams, receive, connection } = connected({ clock, scheduler });
  const results: SendResult[] = [];
  receive(headers(1));
  streams[0]?.write([Buffer.alloc(10_000_000)], (result) => results.push(result));
  scheduler.spend('another', 1000);
  const before = socket.writes;
  await socket.release();
  assert.equal(socket.writes, before, 'the next slice waits for its turn');
  clock.now += 60_000;
  connection.tick(PATIENCE);
  for (const run of turns.splice(0)) run();
  assert.ok(socket.writes > before);
  connection.tick(PATIENCE);
  assert.deepEqual(results, []);
  clock.now += 6000;
  connection.tick(PATIENCE);
  assert.deepEqual(results, ['timeout']);
});

test('unread bytes of a connection that ends are dropped', async () => {
  const clock = { now: 0 };
  const busy = connected({ clock, onStream: () => clock.now++ });
  busy.receive(...Array.from({ length: 90 }, (_, index) => headers(2 * index + 1)));
  const read = busy.streams.length;
  busy.connection.destroy();
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(busy.streams.length, read);
});

test('answers to pings that are never read end the connection, however slow the pings', () => {
  const { socket, clock, errors, receive } = connected();
  receive(headers(1));
  for (let round = 0; round < 1000 && !socket.destroyed; round++) {
    receive(...Array.from({ length: 500 }, () => PING));
    clock.now += 11_000;
    assert.ok(socket.writableLength < MAX_KEPT_BYTES);
  }
  assert.equal(socket.destroyed, true);
  assert.match(String(errors[0]), /does not read the responses/);
});

test('calls that end do not wait for the data of another call', () => {
  const { streams, receive } = connected();
  receive(headers(1), headers(3));
  streams[0]?.write([Buffer.alloc(10_000_000)], () => {});
  streams[1]?.end();
  assert.equal(streams[1]?.closed, true);
  assert.equal(streams[0]?.closed, false);
});

test('writes end when their bytes have left, in order', async () => {
  const { socket, streams, receive } = connected();
  receive(headers(1));
  const ended: string[] = [];
  for (const [name, bytes] of [
    ['first', 300_000],
    ['second', 10],
    ['third', 300_000],
  ] as const)
    streams[0]?.write([Buffer.alloc(bytes)], (result) => ended.push(`${name} ${result}`));
  assert.deepEqual(ended, []);
  await socket.release();
  assert.deepEqual(ended, ['first drained', 'second drained', 'third drained']);
});

test('a socket that accepts nothing until the timeout is closed, and its writes end with that', () => {
  const { socket, streams, clock, connection, receive } = connected();
  receive(headers(1));
  const results: SendResult[] = [];
  streams[0]?.write([Buffer.alloc(10)], (result) => results.push(result));
  streams[0]?.write([Buffer.alloc(1_000_000)], (result) => results.push(result));
  clock.now += PATIENCE.sendTimeoutMs;
  connection.tick(PATIENCE);
  assert.deepEqual(results, []);
  clock.now += 1;
  connection.tick(PATIENCE);
  assert.deepEqual(results, ['timeout', 'timeout']);
  assert.equal(socket.destroyed, true);
});

test('writes of a socket that closes with an error end as not sent', async () => {
  const { socket, streams, state, receive } = connected();
  receive(headers(1));
  const results: SendResult[] = [];
  streams[0]?.write([Buffer.alloc(10)], (result) => results.push(result));
  streams[0]?.write([Buffer.alloc(1_000_000)], (result) => results.push(result));
  socket.destroy(new Error('reset by peer'));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(results, ['closed', 'closed']);
  assert.equal(streams[0]?.closed, true);
  assert.equal(state.closed, true);
});

test('a client that does not read its GOAWAY is disconnected after a timeout', async () => {
  const { socket, clock, state, connection, receive } = connected();
  receive(frame(FRAME.ping, 0, 1, Buffer.alloc(8)));
  assert.equal(socket.destroyed, false);
  receive(...Array.from({ length: 10_000 }, () => PING));
  clock.now += 1001;
  connection.tick(PATIENCE);
  assert.equal(socket.destroyed, true);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(state.closed, true);
});

test('a client that does not read the retirement of its connection is disconnected in the end', () => {
  const { socket, clock, connection } = connected();
  connection.retire();
  clock.now += PATIENCE.sendTimeoutMs + 1;
  connection.tick(PATIENCE);
  assert.equal(socket.destroyed, true);
});

test('requests that cross the end of a retired connection do not discard its last frames', async () => {
  const { socket, streams, connection, receive } = connected();
  receive(headers(1));
  connection.retire();
  streams[0]?.end();
  receive(headers(3), PING);
  assert.equal(socket.destroyed, false);
  assert.equal(streams.length, 1);
});
