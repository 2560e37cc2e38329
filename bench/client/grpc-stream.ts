/**
 * One gRPC call on one TCP connection, reading into a buffer that all connections share: the handler gets the bytes in
 * place, and they are overwritten after it returns.
 */
import { connect, type Socket, type SocketConstructorOpts } from 'node:net';
import { type ConnectionOptions, type SecureContext, connect as secureConnect, type TLSSocket } from 'node:tls';
import {
  DEFAULT_WINDOW,
  FLAG_ACK,
  FLAG_END_STREAM,
  FLAG_PADDED,
  FRAME,
  FRAME_HEADER_BYTES,
  frame,
  frameHeader,
  MAX_FRAME_BYTES,
  opening,
  SETTING_INITIAL_WINDOW_SIZE,
  STREAM,
  windowUpdate,
} from './frames.ts';

const SHARED = Buffer.allocUnsafeSlow(256 * 1024);

/** Bytes read before a large window is granted again. */
const REFILL_BYTES = 512 * 1024 * 1024;

export const SMALL_WINDOW = DEFAULT_WINDOW;

/** How often a slow reader grants a window, ms. */
const CRAWL_TICK_MS = 100;

/** TLS with a client certificate. */
export interface Security {
  readonly context: SecureContext;
  /** A session of an earlier connection of the same proxy: Envoy resumes sessions, too. */
  readonly session: Buffer | undefined;
  readonly onSession: (session: Buffer) => void;
}

export interface GrpcStreamOptions {
  readonly port: number;
  readonly path: string;
  /** Lower-case names and short values. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** Undefined: plain text. */
  readonly security?: Security | undefined;
  /** The address to connect from; by default 127.0.0.1. To the server every loopback address is another client. */
  readonly address?: string | undefined;
  /**
   * Bytes that the sender may send before it waits for this client. With {@link SMALL_WINDOW} bytes,
   * {@link GrpcStream.crawl} can hold the sender back; with none, nothing is ever received.
   */
  readonly window: number;
  /** Bytes of messages with their 5-byte prefixes, in pieces. */
  readonly data: (piece: Buffer) => void;
  /** The connection or the call is over; not called after `destroy`. */
  readonly closed: (reason: string) => void;
}

export class GrpcStream {
  readonly #options: GrpcStreamOptions;
  readonly #socket: Socket;
  readonly #header = Buffer.allocUnsafe(FRAME_HEADER_BYTES);
  #headerFilled = 0;
  /** Bytes of the current frame's payload that are still missing. */
  #left = 0;
  #type = 0;
  #flags = 0;
  /** Payload of a frame other than DATA. */
  #control: Buffer[] = [];
  /** The send windows of the stream and of the connection. */
  #streamWindow = DEFAULT_WINDOW;
  #connectionWindow = DEFAULT_WINDOW;
  #peerInitialWindow = DEFAULT_WINDOW;
  #waiting: Buffer[] = [];
  /** Bytes read for which no window was granted again yet. */
  #unreturned = 0;
  #crawl: { readonly bytesPerTick: number; readonly timer: NodeJS.Timeout } | undefined;
  #over = false;

  constructor(options: GrpcStreamOptions) {
    this.#options = options;
    this.#socket = options.security === undefined ? this.#plain() : this.#secure(options.security);
    this.#socket.on('error', (error) => this.#end(error.message));
    this.#socket.on('close', () => this.#end('the connection was closed'));
    const { path, port, window, metadata } = options;
    this.#socket.write(opening(path, `127.0.0.1:${port}`, window, metadata));
  }

  #plain(): Socket {
    const { port, address } = this.#options;
    return connect({
      host: '127.0.0.1',
      port,
      ...(address === undefined ? {} : { localAddress: address }),
      noDelay: true,
      onread: {
        buffer: SHARED,
        callback: (length) => {
          this.#read(SHARED.subarray(0, length));
          return true;
        },
      },
    });
  }

  #secure({ context, session, onSession }: Security): TLSSocket {
    const options: ConnectionOptions & Pick<SocketConstructorOpts, 'onread'> = {
      host: '127.0.0.1',
      port: this.#options.port,
      ...(this.#options.address === undefined ? {} : { localAddress: this.#options.address }),
      servername: 'localhost',
      secureContext: context,
      ALPNProtocols: ['h2'],
      ...(session === undefined ? {} : { session }),
      onread: {
        buffer: SHARED,
        callback: (length: number) => {
          this.#read(SHARED.subarray(0, length));
          return true;
        },
      },
    };
    const socket = secureConnect(options);
    socket.setNoDelay(true);
    socket.on('session', onSession);
    return socket;
  }

  /** Sends one message, given as chunks that may be shared. */
  send(chunks: readonly Buffer[]): void {
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(
      chunks.reduce((sum, chunk) => sum + chunk.length, 0),
      1,
    );
    this.#waiting.push(prefix, ...chunks);
    this.#flush();
  }

  /** From now on reads so many bytes per second; 0: as fast as it can. */
  crawl(bytesPerSecond: number): void {
    if (this.#crawl !== undefined) clearInterval(this.#crawl.timer);
    this.#crawl = undefined;
    if (bytesPerSecond === 0) {
      this.#giveBack(this.#unreturned);
      return;
    }
    const bytesPerTick = Math.max(1, Math.round((bytesPerSecond * CRAWL_TICK_MS) / 1000));
    const timer = setInterval(() => this.#giveBack(Math.min(bytesPerTick, this.#unreturned)), CRAWL_TICK_MS).unref();
    this.#crawl = { bytesPerTick, timer };
  }

  destroy(): void {
    this.#over = true;
    if (this.#crawl !== undefined) clearInterval(this.#crawl.timer);
    this.#socket.destroy();
  }

  #end(reason: string): void {
    if (this.#over) return;
    this.destroy();
    this.#options.closed(reason);
  }

  #flush(): void {
    this.#socket.cork();
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const window = Math.min(this.#streamWindow, this.#connectionWindow, MAX_FRAME_BYTES);
      if (window <= 0) break;
      const run: Buffer[] = [];
      let length = 0;
      // One frame takes several small chunks.
      for (; next !== undefined && length < window; next = this.#waiting[0]) {
        const part = next.subarray(0, window - length);
        run.push(part);
        length += part.length;
        if (part.length === next.length) this.#waiting.shift();
        else this.#waiting[0] = next.subarray(part.length);
      }
      this.#streamWindow -= length;
      this.#connectionWindow -= length;
      this.#socket.write(frameHeader(FRAME.data, 0, STREAM, length));
      for (const part of run) this.#socket.write(part);
    }
    this.#socket.uncork();
  }

  #read(bytes: Buffer): void {
    let at = 0;
    while (at < bytes.length && !this.#over) {
      if (this.#headerFilled < FRAME_HEADER_BYTES) {
        const part = Math.min(FRAME_HEADER_BYTES - this.#headerFilled, bytes.length - at);
        bytes.copy(this.#header, this.#headerFilled, at, at + part);
        this.#headerFilled += part;
        at += part;
        if (this.#headerFilled < FRAME_HEADER_BYTES) return;
        this.#left = this.#header.readUIntBE(0, 3);
        this.#type = this.#header.readUInt8(3);
        this.#flags = this.#header.readUInt8(4);
      }
      const part = Math.min(this.#left, bytes.length - at);
      this.#payload(bytes.subarray(at, at + part));
      at += part;
      this.#left -= part;
      if (this.#left > 0) return;
      this.#headerFilled = 0;
      this.#frameDone();
    }
  }

  #payload(piece: Buffer): void {
    if (this.#type !== FRAME.data) {
      this.#control.push(Buffer.from(piece));
      return;
    }
    if ((this.#flags & FLAG_PADDED) !== 0) {
      this.#end('padded frames are not read here');
      return;
    }
    this.#unreturned += piece.length;
    if (piece.length > 0) this.#options.data(piece);
  }

  #frameDone(): void {
    const payload = this.#control.length === 1 ? this.#control[0] : Buffer.concat(this.#control);
    this.#control = [];
    const ended = (this.#flags & FLAG_END_STREAM) !== 0;
    switch (this.#type) {
      case FRAME.data:
        if (ended) this.#end('the server ended the call');
        else this.#refill();
        break;
      case FRAME.headers:
        if (ended) this.#end('the server ended the call');
        break;
      case FRAME.rstStream:
        this.#end('the server reset the stream');
        break;
      case FRAME.settings:
        if ((this.#flags & FLAG_ACK) === 0 && payload !== undefined) this.#settings(payload);
        break;
      case FRAME.ping:
        if ((this.#flags & FLAG_ACK) === 0 && payload !== undefined)
          this.#socket.write(frame(FRAME.ping, FLAG_ACK, 0, payload));
        break;
      case FRAME.windowUpdate: {
        const stream = this.#header.readUInt32BE(5);
        const increment = payload?.readUInt32BE(0) ?? 0;
        if (stream === 0) this.#connectionWindow += increment;
        else this.#streamWindow += increment;
        this.#flush();
        break;
      }
      default:
    }
  }

  #settings(payload: Buffer): void {
    for (let at = 0; at + 6 <= payload.length; at += 6) {
      if (payload.readUInt16BE(at) !== SETTING_INITIAL_WINDOW_SIZE) continue;
      const value = payload.readUInt32BE(at + 2);
      this.#streamWindow += value - this.#peerInitialWindow;
      this.#peerInitialWindow = value;
    }
    this.#socket.write(frameHeader(FRAME.settings, FLAG_ACK, 0, 0));
    this.#flush();
  }

  #refill(): void {
    if (this.#crawl !== undefined) return;
    if (this.#unreturned > Math.min(this.#options.window / 2, REFILL_BYTES)) this.#giveBack(this.#unreturned);
  }

  #giveBack(bytes: number): void {
    if (bytes === 0 || this.#over) return;
    this.#unreturned -= bytes;
    this.#socket.write(Buffer.concat([windowUpdate(0, bytes), windowUpdate(STREAM, bytes)]));
  }
}
