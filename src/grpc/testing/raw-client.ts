/**
 * An HTTP/2 client for tests that sends exactly what it is given, even if that is invalid: frames are written by hand,
 * and received frames are kept.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import {
  FLAG_ACK,
  FLAG_END_HEADERS,
  FLAG_END_STREAM,
  FRAME,
  FRAME_HEADER_BYTES,
  frame,
  PREFACE,
  settingsFrame,
} from '../frames/frames.ts';
import { HpackDecoder } from '../hpack/decoder.ts';
import { encodeHeaders } from '../hpack/encoder.ts';
import type { HeaderField } from '../hpack/types.ts';
import { ECHO } from './server.ts';

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

/** Header fields; pairs where a name is repeated or the order matters. */
export type Fields = Readonly<Record<string, string>> | readonly (readonly [name: string, value: string])[];

const NAMES: Readonly<Record<number, string>> = Object.fromEntries(
  Object.entries(FRAME).map(([name, type]) => [type, name]),
);

/** Longest wait for a frame, ms. */
const PATIENCE_MS = 60_000;

/** Header fields as a block. */
export function block(fields: Fields): Buffer {
  const pairs = Array.isArray(fields) ? (fields as readonly (readonly [string, string])[]) : Object.entries(fields);
  return encodeHeaders(pairs.map(([name = '', value = '']): HeaderField => ({ name, value })));
}

/** The headers of a call, with changes. */
export function request(path: string, more: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  return {
    ':method': 'POST',
    ':scheme': 'http',
    ':path': path,
    ':authority': 'test',
    'content-type': 'application/grpc',
    te: 'trailers',
    ...more,
  };
}

/** A number as four bytes, as in settings, windows and error codes. */
export function number(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** A length-prefixed gRPC message. */
export function message(content: string | Buffer): Buffer {
  const bytes = Buffer.from(content);
  return Buffer.concat([Buffer.from([0]), number(bytes.length), bytes]);
}

export class RawClient {
  readonly socket: Socket;
  /** All received frames, in order. */
  readonly frames: Frame[] = [];
  /** The peer has closed the connection. */
  ended = false;
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #answersPings = false;
  readonly #waiting: (() => void)[] = [];
  readonly #asked = new Set<Frame>();
  readonly #decoder = new HpackDecoder({ maxTableBytes: 4096, maxListBytes: 65_536 });

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay(true);
    socket.on('data', (bytes) => this.#take(bytes));
    socket.on('error', () => {});
    socket.on('end', () => this.#end());
    socket.on('close', () => this.#end());
  }

  /** Connects and sends nothing. */
  static async open(port: number): Promise<RawClient> {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    return new RawClient(socket);
  }

  /** Connects and sends preface and SETTINGS. */
  static async connect(port: number, settings: readonly (readonly [number, number])[] = []): Promise<RawClient> {
    const client = await RawClient.open(port);
    await client.begin(settings);
    return client;
  }

  /** Sends preface and SETTINGS. */
  async begin(settings: readonly (readonly [number, number])[] = []): Promise<void> {
    this.send(Buffer.concat([PREFACE, settingsFrame(settings)]));
    await this.next('settings', (received) => (received.flags & FLAG_ACK) === 0);
    this.frame(FRAME.settings, FLAG_ACK, 0);
    await this.next('settings', (received) => (received.flags & FLAG_ACK) !== 0);
  }

  send(bytes: Uint8Array): void {
    if (!this.socket.destroyed) this.socket.write(bytes);
  }

  frame(type: number, flags: number, stream: number, payload: Uint8Array = Buffer.alloc(0)): void {
    this.send(frame(type, flags, stream, payload));
  }

  headers(stream: number, fields: Fields, flags = 0): void {
    this.frame(FRAME.headers, FLAG_END_HEADERS | flags, stream, block(fields));
  }

  /** A whole unary call. */
  call(stream: number, path: string, content: string | Buffer = ''): void {
    this.headers(stream, request(path));
    this.frame(FRAME.data, FLAG_END_STREAM, stream, message(content));
  }

  /** Checks that calls are served on this connection. */
  async echo(stream: number): Promise<void> {
    this.call(stream, ECHO, 'hello');
    assert.equal(await this.statusOf(stream), 0);
    assert.deepEqual(this.dataOf(stream), message('hello'));
  }

  /** Answers the server's pings from now on. */
  answerPings(): void {
    this.#answersPings = true;
  }

  close(): void {
    this.socket.destroy();
  }

  /** Waits for the next matching frame that was not returned before. */
  async next(type: keyof typeof FRAME, fits: (frame: Frame) => boolean = () => true): Promise<Frame> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      const found = this.frames.find((one) => one.type === FRAME[type] && !this.#asked.has(one) && fits(one));
      if (found !== undefined) {
        this.#asked.add(found);
        return found;
      }
      if (this.ended) throw new Error(`the connection ended before a ${type} frame: ${this.story()}`);
      if (!(await this.#change(deadline))) throw new Error(`no ${type} frame: ${this.story()}`);
    }
  }

  /** Waits until the peer has closed the connection. */
  async untilEnded(): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS;
    while (!this.ended) {
      if (!(await this.#change(deadline))) throw new Error(`the connection did not end: ${this.story()}`);
    }
  }

  /** The error code of the connection's GOAWAY. */
  async goawayCode(): Promise<number> {
    const { payload } = await this.next('goaway');
    return payload.readUInt32BE(4);
  }

  /** The error code of the stream's reset. */
  async resetCode(stream: number): Promise<number> {
    const { payload } = await this.next('rstStream', (one) => one.stream === stream);
    return payload.readUInt32BE(0);
  }

  /** The next header block of the stream, as an object. */
  async headersOf(stream: number): Promise<Record<string, string>> {
    const { payload } = await this.next('headers', (one) => one.stream === stream);
    return Object.fromEntries(this.#decoder.decode(payload).map(({ name, value }) => [name, value]));
  }

  /** The gRPC status of the stream, in headers or trailers. */
  async statusOf(stream: number): Promise<number> {
    for (;;) {
      const { 'grpc-status': status } = await this.headersOf(stream);
      if (status !== undefined) return Number(status);
    }
  }

  /** Payload of the received DATA frames of the stream. */
  dataOf(stream: number): Buffer {
    return Buffer.concat(
      this.frames.filter((one) => one.type === FRAME.data && one.stream === stream).map(({ payload }) => payload),
    );
  }

  /** Waits for this many bytes of DATA of the stream. */
  async dataBytes(stream: number, bytes: number): Promise<Buffer> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      const data = this.dataOf(stream);
      if (data.length >= bytes) return data;
      if (this.ended || !(await this.#change(deadline)))
        throw new Error(`${data.length} bytes of DATA instead of ${bytes}: ${this.story()}`);
    }
  }

  /** Checks that the connection is alive and has read everything before: a ping is answered. */
  async ping(): Promise<void> {
    const payload = Buffer.from(String(performance.now()).padEnd(8).slice(0, 8));
    this.frame(FRAME.ping, 0, 0, payload);
    await this.next('ping', (one) => (one.flags & FLAG_ACK) !== 0 && one.payload.equals(payload));
  }

  /** The received frames, for messages of failed tests. */
  story(): string {
    return this.frames
      .slice(-20)
      .map(({ type, flags, stream, payload }) => {
        const text = type === FRAME.goaway ? ` ${payload.readUInt32BE(4)} ${payload.toString('latin1', 8)}` : '';
        return `${NAMES[type] ?? type} ${flags} ${stream} (${payload.length})${text}`;
      })
      .join(', ');
  }

  /** Waits until something is received or the connection ends; false after the timeout. */
  #change(deadline: number): Promise<boolean> {
    const left = deadline - performance.now();
    if (left <= 0) return Promise.resolve(false);
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, left, true);
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve(true);
      });
    });
  }

  #wake(): void {
    for (const resume of this.#waiting.splice(0)) resume();
  }

  #end(): void {
    this.ended = true;
    this.#wake();
  }

  #take(bytes: Buffer): void {
    this.#pending.push(bytes);
    this.#pendingBytes += bytes.length;
    if (this.#pendingBytes < FRAME_HEADER_BYTES) return;
    let all = Buffer.concat(this.#pending);
    while (all.length >= FRAME_HEADER_BYTES) {
      const end = FRAME_HEADER_BYTES + all.readUIntBE(0, 3);
      if (all.length < end) break;
      const [type, flags] = [all.readUInt8(3), all.readUInt8(4)];
      const payload = all.subarray(FRAME_HEADER_BYTES, end);
      this.frames.push({ type, flags, stream: all.readUInt32BE(5) & 0x7fffffff, payload });
      if (this.#answersPings && type === FRAME.ping && flags === 0) this.frame(FRAME.ping, FLAG_ACK, 0, payload);
      all = all.subarray(end);
    }
    this.#pending = [all];
    this.#pendingBytes = all.length;
    this.#wake();
  }
}
