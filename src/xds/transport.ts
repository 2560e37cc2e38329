/**
 * A gRPC stream, read and written without copying what is shared. grpc-js copies each message into a buffer of its own per stream, and
 * waits for a message to be written before it takes the next; for a control plane that is nearly all of the cost of a push, and of
 * the ACKs that thousands of proxies answer it with. So frames are written on the HTTP/2 stream underneath, which takes any number of
 * chunks as they are, and read from it as they arrive.
 *
 * That stream is reached over private members of grpc-js (the version is pinned). When they are not as expected the
 * public way is taken: same bytes, copied.
 */
import { constants, type Http2Session, type ServerHttp2Stream } from 'node:http2';
import { Metadata, type ServerDuplexStream } from '@grpc/grpc-js';
import type { CtlError } from '../core/errors.ts';
import { statusOf } from '../core/grpc-status.ts';
import { FRAME_PREFIX_BYTES } from './codec.ts';
import type { ListFields } from './message-assembly.ts';
import { RequestReader, type RequestSink } from './request-reader.ts';

/**
 * Bytes handed to the socket at once in plain text: large enough that slicing costs nothing, small enough that a slow reader
 * shows progress (5 s for 256 KiB is 50 kB/s).
 */
const PLAIN_SLICE_BYTES = 256 * 1024;

/** Over TLS, Node encrypts a whole write into a buffer that the connection keeps: 64 KiB bounds it for 6 % more CPU. */
const TLS_SLICE_BYTES = 64 * 1024;

/**
 * What a client may send before it has to wait for the server, bytes, on a stream and on its connection. With HTTP/2's 64 KiB a list of
 * names comes in several round trips; what is larger than this would wait in memory for streams that are not let in yet.
 */
const RECEIVE_WINDOW_BYTES = 256 * 1024;

export type SendResult = 'drained' | 'timeout' | 'closed';

/** Who takes the requests of a stream. */
export interface RequestHandler extends RequestSink {
  /** The client has said all that it has to say. */
  ended(): void;
}

export interface Transport {
  readonly peer: string;
  /** True when frames go out without a copy. */
  readonly direct: boolean;
  /** Starts reading requests, which are searched for `lists`. To be called once. */
  read(lists: ListFields, handler: RequestHandler): void;
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

function retireSession(stream: ServerHttp2Stream | undefined): void {
  const session = stream?.session;
  if (session !== undefined && !session.closed) session.close();
}

/** Asks a call's peer to move, as a transport does that is not made for it. */
export function retireConnectionOf(call: AdsCall): void {
  retireSession(http2StreamOf(call));
}

/**
 * Takes the reading of the call's HTTP/2 stream over from grpc-js, before anything was read. False when grpc-js is built differently than
 * expected, or has to decompress.
 */
function takeReading(call: AdsCall, stream: ServerHttp2Stream): boolean {
  const inner: unknown = Reflect.get(call, 'call');
  if (typeof inner !== 'object' || inner === null) return false;
  const queue: unknown = Reflect.get(inner, 'readQueue');
  const untouched = Array.isArray(queue) && queue.length === 0 && Reflect.get(inner, 'isReadPending') === false;
  const [listener, ...others] = stream.listeners('data');
  if (!untouched || Reflect.get(inner, 'incomingEncoding') !== 'identity') return false;
  if (listener === undefined || others.length > 0 || !stream.isPaused()) return false;
  stream.removeListener('data', listener as () => void);
  return true;
}

const widened = new WeakSet<Http2Session>();

/** Opens the windows of the stream's connection, once. */
function widen({ session }: ServerHttp2Stream): void {
  if (session === undefined || session.destroyed || widened.has(session)) return;
  widened.add(session);
  session.settings({ initialWindowSize: RECEIVE_WINDOW_BYTES });
  session.setLocalWindowSize(RECEIVE_WINDOW_BYTES);
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
  readonly #maxReceiveBytes: number;
  /** Set when requests are read from the HTTP/2 stream. */
  #reader: RequestReader | undefined;
  #closed = false;
  #stop: () => void = () => {};

  constructor(call: AdsCall, { sendTimeoutMs, maxReceiveBytes, direct }: TransportOptions) {
    this.#call = call;
    this.#maxReceiveBytes = maxReceiveBytes;
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

  read(lists: ListFields, handler: RequestHandler): void {
    const stream = this.#stream;
    if (stream === undefined || !takeReading(this.#call, stream)) {
      this.#call.on('data', (bytes: Buffer) => handler.message(bytes, []));
      this.#call.once('end', () => handler.ended());
      return;
    }
    const reader = new RequestReader(handler, lists, this.#maxReceiveBytes);
    this.#reader = reader;
    widen(stream);
    stream.on('data', (bytes: Buffer) => {
      if (!this.#closed) reader.take(bytes);
    });
    stream.once('end', () => handler.ended());
    stream.resume();
  }

  send(frames: readonly (readonly Uint8Array[])[]): Promise<SendResult> {
    const stream = this.#stream;
    if (stream === undefined) return this.#sendCopied(frames);
    const [first = []] = frames;
    const chunks = frames.length > 1 ? frames.flat() : first;
    if (chunks.length === 0) return Promise.resolve('drained');
    let bytes = 0;
    for (const { length } of chunks) bytes += length;
    return bytes <= this.#slice ? this.#writeRun(stream, chunks) : this.#sendSliced(stream, chunks);
  }

  async #sendSliced(stream: ServerHttp2Stream, chunks: readonly Uint8Array[]): Promise<SendResult> {
    for (const run of slices(chunks, this.#slice)) {
      const result = await this.#writeRun(stream, run);
      if (result !== 'drained') return result;
    }
    return 'drained';
  }

  #writeRun(stream: ServerHttp2Stream, run: readonly Uint8Array[]): Promise<SendResult> {
    return this.#write((done) => {
      if (run.length > 1) stream.cork();
      run.forEach((chunk, index) => {
        if (index < run.length - 1) stream.write(chunk);
        else stream.write(chunk, done);
      });
      if (run.length > 1) stream.uncork();
    });
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
    this.#reader?.pause();
    if (this.#reader === undefined) this.#call.pause();
    else this.#stream?.pause();
  }

  resume(): void {
    this.#reader?.resume();
    if (this.#reader === undefined) this.#call.resume();
    else this.#stream?.resume();
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
    retireSession(this.#stream);
  }
}

export interface TransportOptions {
  /** A write that makes no progress for so long has failed. */
  readonly sendTimeoutMs: number;
  /** Largest request, bytes. */
  readonly maxReceiveBytes: number;
  /** False: the public way of grpc-js is taken also where the other is there. */
  readonly direct: boolean;
}

/** The transport of a call. */
export function createTransport(call: AdsCall, options: TransportOptions): Transport {
  return new CallTransport(call, options);
}
