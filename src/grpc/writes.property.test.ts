/**
 * Writes of several calls over one connection, whatever happens to them: each write ends once, in order; the bytes sent
 * are those written; no write waits forever that its windows allow; and no bytes change that the socket was given and
 * has not read.
 */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { describe, it } from 'node:test';
import type { TLSSocket } from 'node:tls';
import * as fc from '../core/testing/properties.ts';
import { Connection } from './connection.ts';
import {
  DEFAULT_WINDOW_BYTES,
  ERROR,
  FLAG_END_HEADERS,
  FLAG_END_STREAM,
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

/** A socket that reads what was written only when the test lets it. */
class LateSocket extends Duplex {
  /** The bytes that were read. */
  readonly output: Buffer[] = [];
  /** Copies of written bytes from the time of the write. */
  readonly #written = new Map<Uint8Array, Buffer>();
  #reading: (() => void) | undefined;

  override _read(): void {}

  override write(...args: unknown[]): boolean {
    const [bytes] = args;
    if (bytes instanceof Uint8Array) this.#written.set(bytes, Buffer.from(bytes));
    return Reflect.apply(super.write, this, args);
  }

  override _write(bytes: Buffer, _encoding: string, read: () => void): void {
    this.#reading = () => {
      assert.deepEqual(bytes, this.#written.get(bytes) ?? bytes, 'bytes changed before they were read');
      this.#written.delete(bytes);
      this.output.push(Buffer.from(bytes));
      read();
    };
  }

  /** Reads one write; false when there is none. */
  async readOne(): Promise<boolean> {
    const reading = this.#reading;
    this.#reading = undefined;
    reading?.();
    await new Promise((resolve) => process.nextTick(resolve));
    return reading !== undefined;
  }
}

/** What a writer does when its write ends. */
type Next = 'nothing' | 'write' | 'write elsewhere' | 'end' | 'abort';

type Step =
  | { readonly kind: 'write'; readonly call: number; readonly sizes: readonly number[]; readonly next: Next }
  | { readonly kind: 'end' | 'abort' | 'reset'; readonly call: number }
  | { readonly kind: 'window'; readonly call: number; readonly bytes: number }
  | { readonly kind: 'windows' | 'connection'; readonly bytes: number }
  | { readonly kind: 'read'; readonly times: number }
  | { readonly kind: 'wait'; readonly milliseconds: number }
  | { readonly kind: 'retire' };

const call = fc.nat({ max: 3 });
const size = fc.oneof(fc.nat({ max: 40 }), fc.integer({ min: 4000, max: 20_000 }), fc.constantFrom(0, 16_384, 300_000));
const bytes = fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1000, max: 100_000 }));
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('write' as const),
      call,
      sizes: fc.array(size, { maxLength: 5 }),
      next: fc.constantFrom<Next>('nothing', 'nothing', 'write', 'write elsewhere', 'end', 'abort'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constantFrom('end' as const, 'abort' as const, 'reset' as const), call }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('window' as const), call, bytes }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('windows' as const), bytes: fc.nat({ max: 70_000 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('connection' as const), bytes }) },
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('read' as const), times: fc.integer({ min: 1, max: 8 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('wait' as const), milliseconds: fc.nat({ max: 4000 }) }) },
);

const PATIENCE = { keepaliveIntervalMs: 1e9, keepaliveTimeoutMs: 1e9, idleMs: 1e9, sendTimeoutMs: 5000 };
const CALLS = 4;
const WINDOW_BYTES = 2 ** 28;

interface Written {
  readonly call: number;
  readonly bytes: number;
  readonly results: SendResult[];
}

class World {
  readonly socket = new LateSocket();
  readonly streams: Stream[] = [];
  readonly writes: Written[] = [];
  readonly errors: unknown[] = [];
  /** Bytes written to each call, and whether it has ended. */
  readonly contents: Buffer[][] = Array.from({ length: CALLS }, () => []);
  readonly broken = new Set<number>();
  readonly ended = new Set<number>();
  /** Bytes that the client's windows have allowed. */
  granted = DEFAULT_WINDOW_BYTES;
  initial = DEFAULT_WINDOW_BYTES;
  now = 0;
  readonly connection: Connection;
  #next = 0;

  constructor(secured: boolean) {
    this.connection = new Connection({
      // The connection uses only what a socket has in common with a stream.
      socket: this.socket as unknown as Socket,
      info: { peer: 'test', address: '10.0.0.9', secured: secured ? (this.socket as unknown as TLSSocket) : undefined },
      scheduler: new TurnScheduler({ now: () => this.now }),
      maxStreams: 100,
      now: () => this.now,
      onStream: (stream) => this.streams.push(stream),
      onError: (error) => this.errors.push(error),
      onClose: () => {},
    });
    this.receive(PREFACE, settingsFrame([]));
    for (let index = 0; index < CALLS; index++)
      this.receive(frame(FRAME.headers, FLAG_END_HEADERS, 2 * index + 1, block(request('/test.T/Any'))));
  }

  receive(...frames: Buffer[]): void {
    this.socket.emit('data', Buffer.concat(frames));
  }

  write(call: number, sizes: readonly number[], next: Next): void {
    const chunks = sizes.map((length) => Buffer.alloc(length, ++this.#next & 255));
    const stream = this.streams[call];
    if (stream === undefined) return;
    if (!stream.closed && !this.ended.has(call)) this.contents[call]?.push(...chunks);
    const written: Written = { call, bytes: sizes.reduce((sum, each) => sum + each, 0), results: [] };
    this.writes.push(written);
    stream.write(chunks, (result) => {
      written.results.push(result);
      if (next === 'write') this.write(call, [5], 'nothing');
      else if (next === 'write elsewhere') this.write((call + 1) % CALLS, [5000, 7], 'nothing');
      else if (next === 'end') this.end(call);
      else if (next === 'abort') this.abort(call);
    });
  }

  end(call: number): void {
    this.ended.add(call);
    this.streams[call]?.end();
  }

  abort(call: number): void {
    this.broken.add(call);
    this.streams[call]?.abort();
  }

  async take(one: Step): Promise<void> {
    switch (one.kind) {
      case 'write':
        this.write(one.call, one.sizes, one.next);
        break;
      case 'end':
        this.end(one.call);
        break;
      case 'abort':
        this.abort(one.call);
        break;
      case 'reset':
        this.broken.add(one.call);
        this.receive(frame(FRAME.rstStream, 0, 2 * one.call + 1, number(ERROR.cancel)));
        break;
      case 'window':
        this.receive(frame(FRAME.windowUpdate, 0, 2 * one.call + 1, number(one.bytes)));
        break;
      case 'windows':
        this.receive(settingsFrame([[SETTING.initialWindowSize, one.bytes]]));
        break;
      case 'connection':
        this.granted += one.bytes;
        this.receive(frame(FRAME.windowUpdate, 0, 0, number(one.bytes)));
        break;
      case 'read':
        for (let times = 0; times < one.times; times++) await this.socket.readOne();
        break;
      case 'wait':
        this.now += one.milliseconds;
        this.connection.tick({ ...PATIENCE, sendTimeoutMs: 1e9 });
        break;
      case 'retire':
        this.connection.retire();
    }
    this.checkWindow();
  }

  frames(): { readonly type: number; readonly flags: number; readonly stream: number; readonly payload: Buffer }[] {
    const bytes = Buffer.concat(this.socket.output);
    const frames = [];
    for (let at = 0; at + FRAME_HEADER_BYTES <= bytes.length; ) {
      const start = at + FRAME_HEADER_BYTES;
      const end = start + bytes.readUIntBE(at, 3);
      if (end > bytes.length) break;
      frames.push({
        type: bytes.readUInt8(at + 3),
        flags: bytes.readUInt8(at + 4),
        stream: bytes.readUInt32BE(at + 5),
        payload: bytes.subarray(start, end),
      });
      at = end;
    }
    return frames;
  }

  checkWindow(): void {
    let sent = 0;
    for (const { type, payload } of this.frames()) if (type === FRAME.data) sent += payload.length;
    assert.ok(sent <= this.granted, `${sent} bytes, but the window allows ${this.granted}`);
  }

  /** Opens all windows and reads everything. */
  async letPass(): Promise<void> {
    this.granted += WINDOW_BYTES;
    this.receive(frame(FRAME.windowUpdate, 0, 0, number(WINDOW_BYTES)));
    for (let index = 0; index < CALLS; index++)
      this.receive(frame(FRAME.windowUpdate, 0, 2 * index + 1, number(WINDOW_BYTES)));
    for (let quiet = 0; quiet < 3; ) quiet = (await this.socket.readOne()) ? 0 : quiet + 1;
  }

  check(): void {
    for (const { call, results, bytes } of this.writes)
      assert.equal(
        results.length,
        1,
        `a write of ${bytes} bytes to call ${call} was answered ${results.join() || 'never'}`,
      );
    const frames = this.frames();
    for (let call = 0; call < CALLS; call++) {
      const own = frames.filter(({ stream }) => stream === 2 * call + 1);
      const wanted = Buffer.concat(this.contents[call] ?? []);
      const got = Buffer.concat(own.filter(({ type }) => type === FRAME.data).map(({ payload }) => payload));
      assert.ok(wanted.subarray(0, got.length).equals(got), `call ${call} got something else`);
      const end = own.findIndex(({ flags, type }) => type === FRAME.headers && (flags & FLAG_END_STREAM) !== 0);
      if (!this.broken.has(call)) {
        assert.equal(got.length, wanted.length, `call ${call} did not get all`);
        assert.equal(end >= 0, this.ended.has(call), `the end of call ${call}`);
      }
      if (end >= 0)
        assert.ok(
          own.slice(end + 1).every(({ type }) => type === FRAME.rstStream),
          'frames behind the end',
        );
    }
  }
}

describe('writes', { timeout: fc.scaled(60_000) }, () => {
  const steps = fc.array(step, { minLength: 5, maxLength: 60, size: 'max' });

  for (const secured of [false, true]) {
    const how = secured ? 'encrypted' : 'plain';

    it(`end once, and all leave in the end: ${how}`, () =>
      fc.assert(
        fc.asyncProperty(steps, async (plan) => {
          // Two, because encrypted connections share their buffers.
          const worlds = [new World(secured), new World(secured)];
          for (const one of plan) for (const world of worlds) await world.take(one);
          for (const world of worlds) {
            await world.letPass();
            assert.deepEqual(world.errors, []);
            world.check();
          }
        }),
        { numRuns: 60 },
      ));

    it(`end once when the connection closes meanwhile: ${how}`, () =>
      fc.assert(
        fc.asyncProperty(steps, fc.constantFrom('destroyed', 'stuck', 'protocol', 'retired'), async (plan, how) => {
          const world = new World(secured);
          for (const one of plan) await world.take(one);
          if (how === 'destroyed') world.socket.destroy();
          else if (how === 'protocol') world.receive(frame(FRAME.ping, 0, 1, Buffer.alloc(8)));
          else if (how === 'retired') world.connection.retire();
          for (let round = 0; round < 10; round++) {
            world.now += 6000;
            world.connection.tick(PATIENCE);
          }
          while (await world.socket.readOne());
          // A finished write may have caused another one.
          world.now += 6000;
          world.connection.tick(PATIENCE);
          for (const { results } of world.writes) assert.equal(results.length, 1, results.join());
        }),
        { numRuns: 60 },
      ));
  }
});
