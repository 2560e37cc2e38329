/**
 * The life of one HTTP/2 connection of a client: it begins with settings, is kept alive by pings, and ends when the
 * client breaks a rule, says nothing, takes nothing, or is asked to move and has no streams any more. incoming.ts has
 * what the client sends, frame-writer.ts what it is sent. Source: RFC 9113 sections 3.4, 5.4, 6.7 (PING), 6.8 (GOAWAY)
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
import { MAX_HEADER_LIST_BYTES } from './headers/header-blocks.ts';
import { PacedReader, type ReadScheduler } from './limits/read-scheduler.ts';
import { FrameWriter } from './streams/frame-writer.ts';
import { Incoming } from './streams/incoming.ts';
import { OpenStreams, RECEIVE_WINDOW_BYTES } from './streams/open-streams.ts';
import type { Stream } from './streams/stream.ts';
import { StreamNumbers } from './streams/stream-numbers.ts';
import type { ConnectionInfo } from './types.ts';

/** For a client to read why its connection ends, ms. */
const LAST_WORDS_MS = 1000;

/** A text for people in GOAWAY. */
const MAX_DEBUG_CHARACTERS = 256;

/** Times in ms; see GrpcServerOptions. */
export interface Patience {
  readonly keepaliveIntervalMs: number;
  readonly keepaliveTimeoutMs: number;
  readonly idleMs: number;
  readonly sendTimeoutMs: number;
}

const PING = frame(FRAME.ping, 0, 0, Buffer.from('meshd/go'));

export interface ConnectionOptions {
  readonly socket: Socket;
  /** Where the socket's bytes are had from, when not from the socket itself; see shared-reads.ts. */
  readonly onBytes?: OnBytes | undefined;
  readonly info: ConnectionInfo;
  /** Shared with the other connections of the server. */
  readonly turns: ReadScheduler;
  /** Streams at a time. */
  readonly maxStreams: number;
  /** Monotonic ms. */
  readonly now: () => number;
  /** A request's headers have come. Called before anything else of the stream. */
  readonly onStream: (stream: Stream, method: string) => void;
  /** The connection is over because of the client. */
  readonly onError: (error: unknown) => void;
  readonly onClose: () => void;
}

export class Connection {
  readonly #options: ConnectionOptions;
  readonly #socket: Socket;
  readonly #frames: FrameReader;
  readonly #reader: PacedReader;
  readonly #outlet: FrameWriter;
  readonly #numbers = new StreamNumbers();
  readonly #streams: OpenStreams;
  readonly #incoming: Incoming;
  #heardAt: number;
  #idleSince: number;
  #pingedAt: number | undefined;
  #finishedAt: number | undefined;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#socket = options.socket;
    this.#outlet = new FrameWriter({
      socket: options.socket,
      secured: options.info.secured !== undefined,
      onUnread: () => {
        const message = 'the client does not read the answers that it asks for';
        options.onError(new Http2Error(ERROR.enhanceYourCalm, message));
        this.destroy();
      },
    });
    const shared = { outlet: this.#outlet, peer: new PeerSettings(), numbers: this.#numbers, now: options.now };
    this.#streams = new OpenStreams({
      ...shared,
      info: options.info,
      onIdle: () => this.#idle(),
      onRetire: () => this.retire(),
    });
    const { maxStreams, onStream, onError } = options;
    this.#incoming = new Incoming({ ...shared, streams: this.#streams, maxStreams, onStream, onError });
    this.#frames = new FrameReader(this.#incoming);
    this.#reader = new PacedReader({
      turns: options.turns,
      read: (bytes, late) => this.#read(bytes, late),
      pause: () => void this.#socket.pause(),
      resume: () => void this.#socket.resume(),
    });
    this.#heardAt = options.now();
    this.#idleSince = this.#heardAt;
    if (options.onBytes === undefined) this.#socket.on('data', (bytes: Buffer) => this.#take(bytes));
    else options.onBytes((bytes) => this.#take(bytes));
    // Its error is followed by its close.
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

  #take(bytes: Buffer): void {
    if (this.#incoming.over) return;
    this.#heardAt = this.#options.now();
    // Whatever comes shows that the client lives; its answer may stand behind much else.
    this.#pingedAt = undefined;
    this.#reader.take(bytes);
  }

  /** What it makes us send leaves together. */
  #read(bytes: Buffer, late: () => boolean): number {
    if (this.#incoming.over) return bytes.length;
    this.#outlet.hold();
    try {
      const read = this.#frames.take(bytes, late);
      this.#incoming.settle();
      return read;
    } catch (error) {
      this.#fail(error);
      return bytes.length;
    } finally {
      this.#outlet.release();
    }
  }

  /** What the client did ends its connection, or a stream of it; so does a fault of ours. */
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

  /** Says why and closes; what waits is given up. */
  #goAway(code: ErrorCode, message: string): void {
    if (this.#incoming.over) return;
    this.#outlet.finish(goaway(this.#numbers.last, code, message.slice(0, MAX_DEBUG_CHARACTERS)));
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
    this.#outlet.close();
    for (const stream of this.#streams.all()) stream.close();
  }

  /** A call is answered by a header block alone, which ends it. */
  answer(stream: Stream, block: Buffer): void {
    this.#streams.sendAnswer(stream, block);
    stream.close();
  }

  #idle(): void {
    this.#idleSince = this.#options.now();
    if (this.#incoming.retired) this.#finish();
  }

  /** Asks the client to move: no new streams, and an end when the last has ended. */
  retire(): void {
    if (this.#incoming.over || this.#incoming.retired) return;
    this.#incoming.retired = true;
    this.#outlet.control(goaway(this.#numbers.last, ERROR.none, ''));
    if (this.#streams.size === 0) this.#finish();
  }

  /** Closes when what was written has left. */
  #finish(): void {
    if (this.#incoming.over) return;
    this.#finishedAt ??= this.#options.now();
    this.#outlet.finish();
  }

  /** To be called now and then: pings, and ends what has ended without saying so. */
  tick({ keepaliveIntervalMs, keepaliveTimeoutMs, idleMs, sendTimeoutMs }: Patience): void {
    const now = this.#options.now();
    const patienceMs = this.#incoming.over ? Math.min(sendTimeoutMs, LAST_WORDS_MS) : sendTimeoutMs;
    if (this.#finishedAt !== undefined && now - this.#finishedAt > patienceMs) this.destroy();
    this.#endStuck(sendTimeoutMs);
    if (this.#incoming.over) return;
    if (this.#pingedAt !== undefined && now - this.#pingedAt > keepaliveTimeoutMs) this.destroy();
    else if (this.#streams.size === 0 && now - this.#idleSince > idleMs) this.retire();
    else if (this.#pingedAt === undefined && now - this.#heardAt > keepaliveIntervalMs) {
      this.#pingedAt = now;
      this.#outlet.control(PING);
    }
  }

  #endStuck(sendTimeoutMs: number): void {
    let stuck = false;
    for (const stream of this.#streams.all())
      if (stream.isStuck(sendTimeoutMs)) {
        stuck = true;
        stream.giveUp();
      }
    // Where the socket itself takes nothing, the reset that should tell the client does not get out either.
    if (stuck && this.#outlet.waits) this.destroy();
  }
}
