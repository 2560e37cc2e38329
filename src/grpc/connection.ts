/**
 * One HTTP/2 connection of a client: its frames, its streams, what it may say and when, and what is not put up with.
 * Source: RFC 9113
 */
import type { Socket } from 'node:net';
import { CtlError } from '../core/errors.ts';
import { Budget } from './budget.ts';
import { FrameReader, type FrameSink } from './frame-reader.ts';
import {
  DEFAULT_WINDOW_BYTES,
  ERROR,
  type ErrorCode,
  FLAG_ACK,
  FLAG_END_HEADERS,
  FLAG_END_STREAM,
  FRAME,
  frame,
  goaway,
  Http2Error,
  MAX_WINDOW_BYTES,
  rstStream,
  SETTING,
  SETTINGS_ACK,
  settingsFrame,
  windowUpdate,
} from './frames.ts';
import { HeaderBlocks, MAX_HEADER_LIST_BYTES } from './header-blocks.ts';
import { checkTrailers, RESPONSE_HEADERS, requestHead, trailers, trailersOnly } from './headers.ts';
import type { HeaderField } from './hpack/types.ts';
import { Outlet } from './outlet.ts';
import { PeerSettings } from './peer-settings.ts';
import { Stream, type StreamHost } from './stream.ts';
import { StreamNumbers } from './stream-numbers.ts';
import type { ConnectionInfo } from './types.ts';

/** What a client may send before it has to wait, on a stream and on its connection; this much may wait in memory for a reader. */
const RECEIVE_WINDOW_BYTES = 256 * 1024;

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
  readonly info: ConnectionInfo;
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

export class Connection implements FrameSink, StreamHost {
  readonly info: ConnectionInfo;
  readonly #options: ConnectionOptions;
  readonly #socket: Socket;
  readonly #reader: FrameReader;
  readonly #blocks = new HeaderBlocks();
  readonly #peer = new PeerSettings();
  readonly #budget = new Budget();
  readonly #outlet: Outlet;
  readonly #streams = new Map<number, Stream>();
  readonly #numbers = new StreamNumbers();
  #receiveWindow = RECEIVE_WINDOW_BYTES;
  /** What the DATA frame that is just coming takes from the windows. */
  #frameBytes = 0;
  /** None of that was content. */
  #frameIsEmpty = true;
  /** Bytes taken that the peer was not told of yet. */
  #unreturned = 0;
  /** The client's first frame has come. */
  #begun = false;
  #retired = false;
  #over = false;
  #heardAt: number;
  #idleSince: number;
  #pingedAt: number | undefined;
  #finishedAt: number | undefined;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#socket = options.socket;
    this.info = options.info;
    this.#outlet = new Outlet({
      socket: options.socket,
      secured: options.info.secured !== undefined,
      onUnread: () => {
        const message = 'the client does not read the answers that it asks for';
        options.onError(new Http2Error(ERROR.enhanceYourCalm, message));
        this.destroy();
      },
    });
    this.#reader = new FrameReader(this);
    this.#heardAt = options.now();
    this.#idleSince = this.#heardAt;
    this.#socket.on('data', (bytes: Buffer) => this.#take(bytes));
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

  now(): number {
    return this.#options.now();
  }

  get sliceBytes(): number {
    return this.#outlet.sliceBytes;
  }

  get streams(): number {
    return this.#streams.size;
  }

  #take(bytes: Buffer): void {
    if (this.#over) return;
    this.#heardAt = this.now();
    // Whatever comes shows that the client lives; its answer may stand behind much else.
    this.#pingedAt = undefined;
    try {
      this.#reader.take(bytes);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** What the client did ends its connection, or a stream of it; so does a fault of ours. */
  #fail(error: unknown): void {
    if (this.#over) return;
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
    if (this.#over) return;
    this.#outlet.finish(goaway(this.#numbers.last, code, message.slice(0, MAX_DEBUG_CHARACTERS)));
    this.#finishedAt = this.now();
    this.#closed();
  }

  /** Closes at once. */
  destroy(): void {
    this.#socket.destroy();
    this.#closed();
  }

  #closed(): void {
    if (this.#over) return;
    this.#over = true;
    this.#outlet.close();
    for (const stream of [...this.#streams.values()]) stream.close();
  }

  // What comes

  dataBegins(id: number, length: number): void {
    if (this.#over) return;
    this.#checkTurn(FRAME.data, 0, id);
    this.#frameBytes = length;
    this.#frameIsEmpty = true;
    this.#receiveWindow -= length;
    if (this.#receiveWindow < 0) throw new Http2Error(ERROR.flowControl, 'more data than the connection has room for');
    const stream = this.#streams.get(id);
    if (stream === undefined) {
      this.#numbers.checkNotIdle(id, 'DATA');
      // What was on its way when we reset the stream is passed over.
      if (!this.#numbers.wasReset(id)) this.#refuse(id, ERROR.streamClosed);
      return;
    }
    if (stream.remoteClosed) this.#resetFor(stream, ERROR.streamClosed);
    stream.receiveWindow -= length;
    if (stream.receiveWindow < 0) this.#resetFor(stream, ERROR.flowControl);
  }

  data(id: number, bytes: Buffer): void {
    if (this.#over) return;
    this.#frameIsEmpty = false;
    const stream = this.#streams.get(id);
    try {
      stream?.received(bytes);
    } catch (error) {
      this.#fault(stream, error);
    }
  }

  dataEnds(id: number, flags: number): void {
    if (this.#over) return;
    // A stream has only one end; many clients say it with a frame of its own.
    if (this.#frameIsEmpty && (flags & FLAG_END_STREAM) === 0) this.#spend();
    const stream = this.#streams.get(id);
    if (stream === undefined) {
      // Of a stream that is over: nobody else gives it back.
      this.#giveBack(this.#frameBytes);
      return;
    }
    stream.receivedFrame(this.#frameBytes);
    if ((flags & FLAG_END_STREAM) !== 0) this.#endOf(stream);
  }

  frame(type: number, flags: number, id: number, payload: Buffer): void {
    if (this.#over) return;
    this.#checkTurn(type, flags, id);
    switch (type) {
      case FRAME.headers:
        this.#blocks.begin(flags, id, payload);
        if ((flags & FLAG_END_HEADERS) !== 0) this.#headers();
        break;
      case FRAME.continuation:
        this.#spend();
        this.#blocks.goOn(id, payload);
        if ((flags & FLAG_END_HEADERS) !== 0) this.#headers();
        break;
      case FRAME.rstStream:
        this.#resetByPeer(id, payload);
        break;
      case FRAME.settings:
        this.#settings(flags, id, payload);
        break;
      case FRAME.ping:
        this.#ping(flags, id, payload);
        break;
      case FRAME.windowUpdate:
        this.#windowUpdate(id, payload);
        break;
      case FRAME.pushPromise:
        throw new Http2Error(ERROR.protocol, 'PUSH_PROMISE of a client');
      case FRAME.goaway:
        if (id !== 0) throw new Http2Error(ERROR.protocol, 'GOAWAY on a stream');
        break;
      case FRAME.priority:
        if (id === 0) throw new Http2Error(ERROR.protocol, 'PRIORITY on no stream');
        if (payload.length !== 5) throw new Http2Error(ERROR.frameSize, 'PRIORITY of the wrong size');
        this.#spend();
        break;
      default:
        this.#spend();
    }
  }

  /** Which frame may follow which: RFC 9113 sections 3.4 and 6.10. */
  #checkTurn(type: number, flags: number, id: number): void {
    if (!this.#begun && (type !== FRAME.settings || (flags & FLAG_ACK) !== 0))
      throw new Http2Error(ERROR.protocol, 'the first frame is not SETTINGS');
    this.#begun = true;
    if (this.#blocks.open && (type !== FRAME.continuation || id !== this.#blocks.stream))
      throw new Http2Error(ERROR.protocol, 'another frame between HEADERS and its CONTINUATION');
  }

  /** Frames that cost us more than their sender; see budget.ts. */
  #spend(): void {
    if (!this.#budget.spend(this.now())) throw new Http2Error(ERROR.enhanceYourCalm, 'too many frames without use');
  }

  #headers(): void {
    const { stream: id, endStream } = this.#blocks;
    const known = this.#streams.get(id);
    // Decoded in any case: all blocks of a connection share one table.
    const { fields, tooLarge } = this.#blocks.finish();
    if (known !== undefined) {
      this.#trailers(known, fields, endStream);
      return;
    }
    if (!this.#numbers.begin(id)) return;
    if (this.#retired || this.#streams.size >= this.#options.maxStreams) this.#refuse(id, ERROR.refusedStream);
    else if (tooLarge) this.#refuse(id, ERROR.enhanceYourCalm);
    else this.#open(id, fields, endStream);
  }

  #refuse(id: number, code: ErrorCode): void {
    this.#spend();
    this.#numbers.reset(id);
    this.#outlet.control(rstStream(id, code));
  }

  #open(id: number, fields: readonly HeaderField[], endStream: boolean): void {
    try {
      const head = requestHead(fields, id);
      if (endStream && (head.contentLength ?? 0) > 0)
        throw new Http2Error(ERROR.protocol, 'content-length without content', id);
      const { initialWindow } = this.#peer;
      const stream = new Stream({
        id,
        head,
        host: this,
        sendWindow: initialWindow,
        receiveWindow: RECEIVE_WINDOW_BYTES,
      });
      stream.remoteClosed = endStream;
      this.#streams.set(id, stream);
      this.#options.onStream(stream, head.method);
      if (endStream) stream.receivedEnd();
    } catch (error) {
      const stream = this.#streams.get(id);
      if (!(error instanceof Http2Error) || error.stream === 0) this.#fault(stream, error);
      else if (stream === undefined) this.#refuse(id, error.code);
      else this.#resetFor(stream, error.code);
    }
  }

  #trailers(stream: Stream, fields: readonly HeaderField[], endStream: boolean): void {
    try {
      if (stream.remoteClosed) throw new Http2Error(ERROR.streamClosed, 'HEADERS behind the end', stream.id);
      if (!endStream) throw new Http2Error(ERROR.protocol, 'HEADERS in the middle of a stream', stream.id);
      checkTrailers(fields, stream.id);
    } catch (error) {
      if (!(error instanceof Http2Error)) throw error;
      this.#resetFor(stream, error.code);
      return;
    }
    this.#endOf(stream);
  }

  /** The client has ended its side of the stream. */
  #endOf(stream: Stream): void {
    if (stream.contentIsAmiss) {
      this.#resetFor(stream, ERROR.protocol);
      return;
    }
    try {
      stream.receivedEnd();
    } catch (error) {
      this.#fault(stream, error);
    }
  }

  /** A fault of the stream's owner ends that stream; one without a stream, or a rule that the client has broken, the connection. */
  #fault(stream: Stream | undefined, error: unknown): void {
    if (stream === undefined || error instanceof Http2Error) throw error;
    this.#options.onError(error);
    stream.end(new CtlError('internal', 'internal error'));
  }

  /** A stream ends because of what the client sent on it. */
  #resetFor(stream: Stream, code: ErrorCode): void {
    this.#spend();
    stream.reset(code);
  }

  #resetByPeer(id: number, payload: Buffer): void {
    if (payload.length !== 4) throw new Http2Error(ERROR.frameSize, 'RST_STREAM of the wrong size');
    this.#numbers.checkNotIdle(id, 'RST_STREAM');
    this.#spend();
    this.#streams.get(id)?.close();
  }

  #settings(flags: number, id: number, payload: Buffer): void {
    if (id !== 0) throw new Http2Error(ERROR.protocol, 'SETTINGS on a stream');
    if ((flags & FLAG_ACK) !== 0) {
      if (payload.length > 0) throw new Http2Error(ERROR.frameSize, 'SETTINGS with ACK and content');
      return;
    }
    this.#spend();
    const grown = this.#peer.take(payload);
    if (grown !== 0) for (const stream of this.#streams.values()) this.#widen(stream, grown, 0);
    this.#outlet.control(SETTINGS_ACK);
    this.#outlet.pump();
  }

  /** `blame`: the stream whose fault it is when the window gets too large. */
  #widen(stream: Stream, bytes: number, blame: number): void {
    stream.sendWindow += bytes;
    if (stream.sendWindow > MAX_WINDOW_BYTES) throw new Http2Error(ERROR.flowControl, 'a window over 2^31-1', blame);
    this.#outlet.enqueue(stream);
  }

  #ping(flags: number, id: number, payload: Buffer): void {
    if (id !== 0) throw new Http2Error(ERROR.protocol, 'PING on a stream');
    if (payload.length !== 8) throw new Http2Error(ERROR.frameSize, 'PING of the wrong size');
    if ((flags & FLAG_ACK) !== 0) return;
    this.#spend();
    this.#outlet.control(frame(FRAME.ping, FLAG_ACK, 0, payload));
  }

  #windowUpdate(id: number, payload: Buffer): void {
    if (payload.length !== 4) throw new Http2Error(ERROR.frameSize, 'WINDOW_UPDATE of the wrong size');
    const bytes = payload.readUInt32BE(0) & MAX_WINDOW_BYTES;
    if (id === 0) {
      if (bytes === 0) throw new Http2Error(ERROR.protocol, 'WINDOW_UPDATE by nothing');
      this.#outlet.widen(bytes);
    } else {
      const stream = this.#streams.get(id);
      if (stream === undefined) {
        this.#numbers.checkNotIdle(id, 'WINDOW_UPDATE');
        return;
      }
      if (bytes === 0 || stream.sendWindow + bytes > MAX_WINDOW_BYTES) {
        this.#resetFor(stream, bytes === 0 ? ERROR.protocol : ERROR.flowControl);
        return;
      }
      this.#widen(stream, bytes, id);
    }
    this.#outlet.pump();
  }

  // What goes

  #block(bytes: Buffer): Buffer {
    const update = this.#peer.takeTableUpdate();
    return update === undefined ? bytes : Buffer.concat([update, bytes]);
  }

  sendHeaders(stream: Stream): void {
    this.#outlet.control(frame(FRAME.headers, FLAG_END_HEADERS, stream.id, this.#block(RESPONSE_HEADERS)));
  }

  sendEnd(stream: Stream, error: CtlError | undefined): void {
    this.sendAnswer(stream, stream.opened ? trailers(error) : trailersOnly(error));
  }

  /** A header block that ends the stream. */
  sendAnswer(stream: Stream, block: Buffer): void {
    const { id, remoteClosed } = stream;
    this.#outlet.control(frame(FRAME.headers, FLAG_END_HEADERS | FLAG_END_STREAM, id, this.#block(block)));
    // RFC 9113 section 8.1: what the client has still to say is not wanted.
    if (!remoteClosed) this.sendReset(stream, ERROR.none);
  }

  sendReset({ id }: Stream, code: ErrorCode): void {
    this.#numbers.reset(id);
    this.#outlet.control(rstStream(id, code));
  }

  ready(stream: Stream): void {
    this.#outlet.enqueue(stream);
    this.#outlet.pump();
  }

  consumed(stream: Stream, bytes: number): void {
    stream.unreturned += bytes;
    if (stream.unreturned >= RECEIVE_WINDOW_BYTES / 2 && !stream.remoteClosed && !stream.closed) {
      this.#outlet.control(windowUpdate(stream.id, stream.unreturned));
      stream.receiveWindow += stream.unreturned;
      stream.unreturned = 0;
    }
    this.#giveBack(bytes);
  }

  /** Bytes that were taken, or passed over, are the connection's again. */
  #giveBack(bytes: number): void {
    this.#unreturned += bytes;
    if (this.#unreturned < RECEIVE_WINDOW_BYTES / 2) return;
    this.#outlet.control(windowUpdate(0, this.#unreturned));
    this.#receiveWindow += this.#unreturned;
    this.#unreturned = 0;
  }

  ended(stream: Stream, held: number): void {
    this.#giveBack(held);
    this.#streams.delete(stream.id);
    this.#outlet.forget(stream);
    if (this.#streams.size > 0) return;
    this.#idleSince = this.now();
    if (this.#retired) this.#finish();
  }

  // Its life

  retire(): void {
    if (this.#over || this.#retired) return;
    this.#retired = true;
    this.#outlet.control(goaway(this.#numbers.last, ERROR.none, ''));
    if (this.#streams.size === 0) this.#finish();
  }

  /** Closes when what was written has left. */
  #finish(): void {
    if (this.#over) return;
    this.#finishedAt ??= this.now();
    this.#outlet.finish();
  }

  /** To be called now and then: pings, and ends what has ended without saying so. */
  tick({ keepaliveIntervalMs, keepaliveTimeoutMs, idleMs, sendTimeoutMs }: Patience): void {
    const now = this.now();
    const patienceMs = this.#over ? Math.min(sendTimeoutMs, LAST_WORDS_MS) : sendTimeoutMs;
    if (this.#finishedAt !== undefined && now - this.#finishedAt > patienceMs) this.destroy();
    this.#endStuck(sendTimeoutMs);
    if (this.#over) return;
    if (this.#pingedAt !== undefined && now - this.#pingedAt > keepaliveTimeoutMs) this.destroy();
    else if (this.#streams.size === 0 && now - this.#idleSince > idleMs) this.retire();
    else if (this.#pingedAt === undefined && now - this.#heardAt > keepaliveIntervalMs) {
      this.#pingedAt = now;
      this.#outlet.control(PING);
    }
  }

  #endStuck(sendTimeoutMs: number): void {
    let stuck = false;
    for (const stream of [...this.#streams.values()])
      if (stream.isStuck(sendTimeoutMs)) {
        stuck = true;
        stream.giveUp();
      }
    // Where the socket itself takes nothing, the reset that should tell the client does not get out either.
    if (stuck && this.#outlet.waits) this.destroy();
  }
}
