/**
 * A connection of an Envoy on which it makes unary calls, written by hand: the garbage of node:http2 stops the process
 * of the callers for longer than the decisions take.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as secureConnect } from 'node:tls';
import { POLICY_NAMESPACE_METADATA } from '../../src/core/proxy.ts';
import {
  callFields,
  DEFAULT_WINDOW,
  FLAG_ACK,
  FLAG_END_HEADERS,
  FLAG_END_STREAM,
  FRAME,
  FRAME_HEADER_BYTES,
  frame,
  frameHeader,
  LARGE_WINDOW,
  preface,
} from '../client/frames.ts';
import type { LoadCommand } from './messages.ts';
import { NAMESPACE, SERVICE } from './requests.ts';

/** Called with the message of the response and its prefix; empty when the call has failed. */
type Done = (answer: Buffer) => void;

interface Call {
  readonly done: Done;
  answer: Buffer;
}

const NOTHING = Buffer.alloc(0);
const FIELDS = callFields(SERVICE, 'localhost', { [POLICY_NAMESPACE_METADATA]: NAMESPACE });

export class CallConnection {
  /** The connection is open. */
  readonly ready: Promise<unknown>;
  readonly #socket: Socket;
  readonly #calls = new Map<number, Call>();
  /** Calls that wait until the server grants a window. */
  readonly #waiting: (() => void)[] = [];
  #stream = 1;
  /** Of the connection: a request is smaller than the window of a stream. */
  #window = DEFAULT_WINDOW;
  #unread: Buffer = NOTHING;

  constructor({ port, tls }: Pick<LoadCommand, 'port' | 'tls'>) {
    this.#socket =
      tls === undefined
        ? connect({ port, host: '127.0.0.1', noDelay: true })
        : secureConnect({
            port,
            host: '127.0.0.1',
            servername: 'localhost',
            ca: tls.root,
            cert: tls.chain,
            key: tls.key,
            ALPNProtocols: ['h2'],
          }).setNoDelay(true);
    this.ready = once(this.#socket, tls === undefined ? 'connect' : 'secureConnect');
    this.#socket.write(preface(LARGE_WINDOW));
    this.#socket.on('data', (bytes: Buffer) => this.#read(bytes));
    this.#socket.on('error', () => undefined);
    this.#socket.on('close', () => {
      for (const { done } of this.#calls.values()) done(NOTHING);
      this.#calls.clear();
    });
  }

  call(body: Buffer, done: Done): void {
    if (this.#window < body.length) {
      this.#waiting.push(() => this.call(body, done));
      return;
    }
    this.#window -= body.length;
    const stream = this.#stream;
    this.#stream += 2;
    this.#calls.set(stream, { done, answer: NOTHING });
    const headers = frameHeader(FRAME.headers, FLAG_END_HEADERS, stream, FIELDS.length);
    const data = frameHeader(FRAME.data, FLAG_END_STREAM, stream, body.length);
    this.#socket.write(Buffer.concat([headers, FIELDS, data, body]));
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(bytes: Buffer): void {
    const all = this.#unread.length === 0 ? bytes : Buffer.concat([this.#unread, bytes]);
    let at = 0;
    while (all.length - at >= FRAME_HEADER_BYTES) {
      const end = at + FRAME_HEADER_BYTES + all.readUIntBE(at, 3);
      if (end > all.length) break;
      const [type, flags, stream] = [all.readUInt8(at + 3), all.readUInt8(at + 4), all.readUInt32BE(at + 5)];
      this.#take(type, flags, stream, all.subarray(at + FRAME_HEADER_BYTES, end));
      at = end;
    }
    this.#unread = all.subarray(at);
  }

  #take(type: number, flags: number, stream: number, payload: Buffer): void {
    switch (type) {
      case FRAME.settings:
        if ((flags & FLAG_ACK) === 0) this.#socket.write(frameHeader(FRAME.settings, FLAG_ACK, 0, 0));
        return;
      case FRAME.ping:
        if ((flags & FLAG_ACK) === 0) this.#socket.write(frame(FRAME.ping, FLAG_ACK, 0, payload));
        return;
      case FRAME.windowUpdate:
        if (stream === 0) this.#window += payload.readUInt32BE(0);
        for (const retry of this.#waiting.splice(0)) retry();
        return;
      case FRAME.data:
      case FRAME.headers:
      case FRAME.rstStream:
        this.#ofCall(type, flags, stream, payload);
        return;
      default:
    }
  }

  #ofCall(type: number, flags: number, stream: number, payload: Buffer): void {
    const call = this.#calls.get(stream);
    if (call === undefined) return;
    if (type === FRAME.data) call.answer = call.answer.length === 0 ? payload : Buffer.concat([call.answer, payload]);
    if (type !== FRAME.rstStream && (flags & FLAG_END_STREAM) === 0) return;
    this.#calls.delete(stream);
    call.done(type === FRAME.rstStream ? NOTHING : call.answer);
  }
}
