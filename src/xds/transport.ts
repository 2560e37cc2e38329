/**
 * Writing on a gRPC stream without copying what is shared. grpc-js copies each message into a buffer of its own per stream, and waits
 * for a message to be written before it takes the next; for a control plane that is nearly all of the cost of a push. So
 * frames are written on the HTTP/2 stream underneath, which takes any number of chunks as they are.
 *
 * That stream is reached over private members of grpc-js (the version is pinned). When they are not as expected the
 * public way is taken: same bytes, one copy.
 */
import { constants, type ServerHttp2Stream } from 'node:http2';
import { Metadata, type ServerDuplexStream } from '@grpc/grpc-js';
import type { CtlError } from '../core/errors.ts';
import { statusOf } from '../core/grpc-status.ts';
import { FRAME_PREFIX_BYTES } from './codec.ts';

/**
 * Bytes handed to the socket at once in plain text: large enough that slicing costs nothing, small enough that a slow reader
 * shows progress (5 s for 256 KiB is 50 kB/s).
 */
const PLAIN_SLICE_BYTES = 256 * 1024;

/** Over TLS, Node encrypts a whole write into a buffer that the connection keeps: 64 KiB bounds it for 6 % more CPU. */
const TLS_SLICE_BYTES = 64 * 1024;

export type SendResult = 'drained' | 'timeout' | 'closed';

export interface Transport {
  readonly peer: string;
  /** True when frames go out without a copy. */
  readonly direct: boolean;
  /** Sends gRPC frames (each as chunks); resolves when the bytes have left for the socket. Calls must not overlap. Never rejects. */
  send(frames: readonly (readonly Uint8Array[])[]): Promise<SendResult>;
  /** Stops and starts reading requests. */
  pause(): void;
  resume(): void;
  /** Ends the stream with an error status. */
  fail(error: CtlError): void;
  /** Ends the stream with status OK, after what was written. */
  end(): void;
  /** Tears the stream down without waiting for anything. */
  abort(): void;
  /** Asks the peer to move: no new streams on this connection, which closes when its last stream has ended. */
  retireConnection(): void;
}

export type AdsCall = ServerDuplexStream<Buffer, Buffer>;

/** The HTTP/2 stream under a call, or undefined when grpc-js is built differently than expected. */
export function http2StreamOf(call: AdsCall): ServerHttp2Stream | undefined {
  const inner: unknown = Reflect.get(call, 'call');
  if (typeof inner !== 'object' || inner === null) return undefined;
  const stream: unknown = Reflect.get(inner, 'stream');
  if (typeof stream !== 'object' || stream === null) return undefined;
  for (const method of ['write', 'cork', 'uncork', 'respond', 'close'])
    if (typeof Reflect.get(stream, method) !== 'function') return undefined;
  return stream as ServerHttp2Stream;
}

/** Cuts chunks into runs of at most `limit` bytes. Views only; nothing is copied. */
export function* slices(chunks: readonly Uint8Array[], limit: number): Generator<Uint8Array[]> {
  let run: Uint8Array[] = [];
  let room = limit;
  for (const chunk of chunks)
    for (let at = 0; at < chunk.length; ) {
      const take = Math.min(room, chunk.length - at);
      run.push(take === chunk.length ? chunk : chunk.subarray(at, at + take));
      at += take;
      room -= take;
      if (room > 0) continue;
      yield run;
      run = [];
      room = limit;
    }
  if (run.length > 0) yield run;
}

class CallTransport implements Transport {
  readonly peer: string;
  readonly #call: AdsCall;
  readonly #stream: ServerHttp2Stream | undefined;
  readonly #sendTimeoutMs: number;
  readonly #slice: number;
  #closed = false;
  #stop: () => void = () => {};

  constructor(call: AdsCall, sendTimeoutMs: number, direct: boolean) {
    this.#call = call;
    this.peer = call.getPeer();
    this.#stream = direct ? http2StreamOf(call) : undefined;
    this.#sendTimeoutMs = sendTimeoutMs;
    const socket = this.#stream?.session?.socket;
    const secure = socket !== undefined && 'encrypted' in socket && socket.encrypted === true;
    this.#slice = secure ? TLS_SLICE_BYTES : PLAIN_SLICE_BYTES;
    const closed = (): void => {
      this.#closed = true;
      this.#stop();
    };
    call.once('cancelled', closed);
    call.once('close', closed);
    // Headers at once: a client sees that it is connected before there is anything to say.
    call.sendMetadata(new Metadata());
  }

  get direct(): boolean {
    return this.#stream !== undefined;
  }

  async send(frames: readonly (readonly Uint8Array[])[]): Promise<SendResult> {
    const stream = this.#stream;
    if (stream === undefined) return this.#sendCopied(frames);
    for (const run of slices(frames.flat(), this.#slice)) {
      const result = await this.#write((done) => {
        stream.cork();
        run.forEach((chunk, index) => {
          if (index < run.length - 1) stream.write(chunk);
          else stream.write(chunk, done);
        });
        stream.uncork();
      });
      if (result !== 'drained') return result;
    }
    return 'drained';
  }

  /** grpc-js puts the frame prefix before each message by itself. */
  async #sendCopied(frames: readonly (readonly Uint8Array[])[]): Promise<SendResult> {
    for (const frame of frames) {
      const message = Buffer.concat(frame).subarray(FRAME_PREFIX_BYTES);
      const result = await this.#write((done) => this.#call.write(message, done));
      if (result !== 'drained') return result;
    }
    return 'drained';
  }

  /** One write; its timer runs only while its bytes wait. */
  #write(write: (done: (error?: Error | null) => void) => void): Promise<SendResult> {
    if (this.#closed) return Promise.resolve('closed');
    return new Promise((resolve) => {
      const timer = setTimeout(() => finish('timeout'), this.#sendTimeoutMs);
      const finish = (result: SendResult): void => {
        clearTimeout(timer);
        this.#stop = () => {};
        resolve(result);
      };
      this.#stop = () => finish('closed');
      write((error) => finish(error === undefined || error === null ? 'drained' : 'closed'));
    });
  }

  pause(): void {
    this.#call.pause();
  }

  resume(): void {
    this.#call.resume();
  }

  fail(error: CtlError): void {
    if (!this.#closed) this.#call.emit('error', statusOf(error));
  }

  end(): void {
    if (!this.#closed) this.#call.end();
  }

  abort(): void {
    if (this.#stream === undefined) this.#call.destroy();
    else this.#stream.close(constants.NGHTTP2_CANCEL);
  }

  retireConnection(): void {
    const session = this.#stream?.session;
    if (session !== undefined && !session.closed) session.close();
  }
}

/** The transport of a call. `direct: false` takes the public way of grpc-js also where the other is there. */
export function createTransport(call: AdsCall, sendTimeoutMs: number, direct = true): Transport {
  return new CallTransport(call, sendTimeoutMs, direct);
}
