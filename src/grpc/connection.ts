/**
 * The life cycle of one HTTP/2 connection: it begins with SETTINGS and is kept alive by pings. It ends when the client
 * violates the protocol, stops sending or reading, or was sent GOAWAY and has no streams left. incoming.ts processes
 * the client's frames, frame-writer.ts writes the server's. Source: RFC 9113 sections 3.4, 5.4, 6.7 (PING), 6.8
 * (GOAWAY)
 */
import type { Socket } from 'node:net';
import type { OnBytes } from './buffers/shared-reads.ts';
import { FrameReader } from './frames/frame-reader.ts';
import {
  DEFAULT_WINDOW_BYTES,
  ERROR,
  type ErrorCode,
  FRAME,
  frame,
  goaway,
  Http2Error,
  MAX_WINDOW_BYTES,
  SETTING,
  settingsFrame,
  windowUpdate,
} from './frames/frames.ts';
import { PeerSettings } from './frames/peer-settings.ts';
import { HANDSHAKE_MS } from './handshakes/tls-listener.ts';
import { MAX_HEADER_LIST_BYTES } from './headers/header-blocks.ts';
import { PacedReader } from './limits/paced-reader.ts';
import { networkOf } from './limits/per-address-limiter.ts';
import type { TurnScheduler } from './limits/turn-scheduler.ts';
import { FrameWriter } from './streams/frame-writer.ts';
import { Incoming } from './streams/incoming.ts';
import { OpenStreams, RECEIVE_WINDOW_BYTES } from './streams/open-streams.ts';
import type { Stream } from './streams/stream.ts';
import { StreamNumbers } from './streams/stream-numbers.ts';
import type { ConnectionInfo } from './types.ts';

/** Time for a client to read why its connection ends, ms. */
const GOAWAY_MS = 1000;

/** Maximum length of the message in GOAWAY. */
const MAX_DEBUG_CHARACTERS = 256;

/** Times in ms; see GrpcServerOptions. */
export interface ConnectionTimeouts {
  readonly keepaliveIntervalMs: number;
  readonly keepaliveTimeoutMs: number;
  readonly idleMs: number;
  readonly sendTimeoutMs: number;
}

const PING = frame(FRAME.ping, 0, 0, Buffer.from('meshd/go'));

export interface ConnectionOptions {
  readonly socket: Socket;
  /** The source of the socket's bytes if it is not the socket itself; see shared-reads.ts. */
  readonly onBytes?: OnBytes | undefined;
  readonly info: ConnectionInfo;
  /** Shared with the other connections of the server. */
  readonly scheduler: TurnScheduler;
  /** Maximum number of concurrent streams. */
  readonly maxStreams: number;
  /** Monotonic ms. */
  readonly now: () => number;
  /** A request has begun. Called before anything else of the stream. */
  readonly onStream: (stream: Stream, method: string) => void;
  /** The connection ends because of an error. */
  readonly onError: (error: unknown) => void;
  readonly onClose: () => void;
}

export class Connection {
  readonly #options: ConnectionOptions;
  readonly #socket: Socket;
  readonly #frames: FrameReader;
  readonly #reader: PacedReader;
  readonly #writer: FrameWriter;
  readonly #numbers = new StreamNumbers();
  readonly #streams: OpenStreams;
  readonly #incoming: Incoming;
  /** The caller to which the time of its frames is charged: the client's address until the caller is known. */
  #caller: string;
  #receivedAt: number;
  #idleSince: number;
  #pingedAt: number | undefined;
  #finishedAt: number | undefined;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#socket = options.socket;
    this.#caller = networkOf(options.info.address);
    const paced = { scheduler: options.scheduler, caller: () => this.#caller };
    this.#writer = new FrameWriter({
      ...paced,
      socket: options.socket,
      secured: options.info.secured !== undefined,
      onNotRead: () => {
        const message = 'the client does not read the responses to its frames';
        options.onError(new Http2Error(ERROR.enhanceYourCalm, message));
        this.destroy();
      },
    });
    const shared = { writer: this.#writer, peer: new PeerSettings(), numbers: this.#numbers, now: options.now };
    this.#streams = new OpenStreams({
      ...shared,
      info: options.info,
      onIdle: () => this.#idle(),
      onRetire: () => this.retire(),
      onCaller: (caller) => this.#isOf(caller),
    });
    const { maxStreams, onStream, onError } = options;
    this.#incoming = new Incoming({ ...shared, streams: this.#streams, maxStreams, onStream, onError });
    this.#frames = new FrameReader(this.#incoming);
    this.#reader = new PacedReader({
      ...paced,
      read: (bytes, late) => this.#read(bytes, late),
      pause: () => void this.#socket.pause(),
      resume: () => void this.#socket.resume(),
    });
    this.#receivedAt = options.now();
    this.#idleSince = this.#receivedAt;
    if (options.onBytes === undefined) this.#socket.on('data', (bytes: Buffer) => this.#take(bytes));
    else options.onBytes((bytes) => this.#take(bytes));
    // An error is followed by the close event.
    this.#socket.on('error', () => {});
    this.#socket.once('close', () => {
      this.#closed();
      options.onClose();
    });
    this.#socket.write(
      Buffer.concat([
        settingsFrame([
          [SETTING.maxConcurrentStreams, Math.min(options.maxStreams, MAX_WINDOW_BYTES)],
          [SETTING.initialWindowSize, RECEIVE_WINDOW_BYTES],
          [SETTING.maxHeaderListSize, MAX_HEADER_LIST_BYTES],
        ]),
        windowUpdate(0, RECEIVE_WINDOW_BYTES - DEFAULT_WINDOW_BYTES),
      ]),
    );
  }

  /** The time of the connection is charged to this caller, including its handshake. */
  #isOf(caller: string): void {
    if (caller === this.#caller) return;
    this.#caller = caller;
    const { info, scheduler } = this.#options;
    if (info.secured !== undefined) scheduler.charge(caller, HANDSHAKE_MS);
  }

  #take(bytes: Buffer): void {
    if (this.#incoming.over) return;
    this.#receivedAt = this.#options.now();
    // Any bytes show that the client is alive; its response to the ping may be queued behind others.
    this.#pingedAt = undefined;
    this.#reader.take(bytes);
  }

  /** Collects the responses to these bytes in one write. */
  #read(bytes: Buffer, late: () => boolean): number {
    if (this.#incoming.over) return bytes.length;
    this.#writer.cork();
    try {
      const read = this.#frames.take(bytes, late);
      this.#incoming.settle();
      return read;
    } catch (error) {
      this.#fail(error);
      return bytes.length;
    } finally {
      this.#writer.uncork();
    }
  }

  /** Ends the connection because of a violation of the client, or because of a bug. */
  #fail(error: unknown): void {
    if (this.#incoming.over) return;
    if (!(error instanceof Http2Error)) {
      this.#options.onError(error);
      this.#goAway(ERROR.internal, 'internal error');
      return;
    }
    this.#options.onError(error);
    this.#goAway(error.code, error.message);
  }

  /** Sends GOAWAY and closes; waiting data is dropped. */
  #goAway(code: ErrorCode, message: string): void {
    if (this.#incoming.over) return;
    this.#writer.finish(goaway(this.#numbers.last, code, message.slice(0, MAX_DEBUG_CHARACTERS)));
    this.#finishedAt = this.#options.now();
    this.#closed();
  }

  /** Closes at once. */
  destroy(): void {
    this.#socket.destroy();
    this.#closed();
  }

  #closed(): void {
    if (this.#incoming.over) return;
    this.#incoming.over = true;
    this.#reader.close();
    this.#writer.close();
    for (const stream of this.#streams.all()) stream.close();
  }

  /** Responds to a call with headers only, and ends it. */
  answer(stream: Stream, block: Buffer): void {
    this.#streams.sendAnswer(stream, block);
    stream.close();
  }

  #idle(): void {
    this.#idleSince = this.#options.now();
    if (this.#incoming.retired) this.#finish();
  }

  /** Whether the client has sent the preface. */
  get begun(): boolean {
    return this.#frames.begun;
  }

  /** Whether it carries no stream. */
  get isIdle(): boolean {
    return this.#streams.size === 0;
  }

  /** Asks the client to use another connection: takes no new streams, and ends after the last one. */
  retire(): void {
    if (this.#incoming.over || this.#incoming.retired) return;
    this.#incoming.retired = true;
    this.#writer.control(goaway(this.#numbers.last, ERROR.none, ''));
    if (this.#streams.size === 0) this.#finish();
  }

  /** Closes when all writes have been sent. */
  #finish(): void {
    if (this.#incoming.over) return;
    this.#finishedAt ??= this.#options.now();
    this.#writer.finish();
  }

  /** To be called regularly: sends pings, and closes what has timed out. */
  tick({ keepaliveIntervalMs, keepaliveTimeoutMs, idleMs, sendTimeoutMs }: ConnectionTimeouts): void {
    const now = this.#options.now();
    const timeoutMs = this.#incoming.over ? Math.min(sendTimeoutMs, GOAWAY_MS) : sendTimeoutMs;
    if (this.#finishedAt !== undefined && now - this.#finishedAt > timeoutMs) this.destroy();
    this.#endStuck(sendTimeoutMs);
    if (this.#incoming.over) return;
    if (this.#pingedAt !== undefined && now - this.#pingedAt > keepaliveTimeoutMs) this.destroy();
    else if (this.#streams.size === 0 && now - this.#idleSince > idleMs) this.retire();
    else if (this.#pingedAt === undefined && now - this.#receivedAt > keepaliveIntervalMs) {
      this.#pingedAt = now;
      this.#writer.control(PING);
    }
  }

  #endStuck(sendTimeoutMs: number): void {
    if (this.#writer.delayed) return;
    let stuck = false;
    for (const stream of this.#streams.all())
      if (stream.isStuck(sendTimeoutMs)) {
        stuck = true;
        stream.giveUp();
      }
    // If the socket does not accept data, the reset would not reach the client either.
    if (stuck && this.#writer.waits) this.destroy();
  }
}
