/**
 * Processes the frames of a client: opens streams and passes data to them, checks that frames are allowed where they
 * arrive, and limits frames that only cause work. Source: RFC 9113 sections 5 (streams), 6 (frames), 8.1 (messages)
 */
import { CtlError } from '../../core/errors.ts';
import type { FrameSink } from '../frames/frame-reader.ts';
import {
  ERROR,
  type ErrorCode,
  FLAG_ACK,
  FLAG_END_HEADERS,
  FLAG_END_STREAM,
  FRAME,
  frame,
  Http2Error,
  MAX_WINDOW_BYTES,
  rstStream,
  SETTINGS_ACK,
} from '../frames/frames.ts';
import type { PeerSettings } from '../frames/peer-settings.ts';
import { HeaderBlocks } from '../headers/header-blocks.ts';
import { checkTrailers, requestHead } from '../headers/headers.ts';
import type { HeaderField } from '../hpack/types.ts';
import { FrameBudget } from '../limits/frame-budget.ts';
import type { FrameWriter } from './frame-writer.ts';
import type { OpenStreams } from './open-streams.ts';
import type { Stream } from './stream.ts';
import type { StreamNumbers } from './stream-numbers.ts';

/**
 * Smaller window updates, bytes, count as abuse: they cause frames that are mostly header (CVE-2019-9511). Normal
 * clients return a part of their window, or the bytes of a message.
 */
const TINY_UPDATE_BYTES = 128;

/** Streams whose windows can be changed at the cost of one frame. */
const STREAMS_PER_FRAME = 100;

export interface IncomingOptions {
  readonly streams: OpenStreams;
  readonly writer: FrameWriter;
  readonly peer: PeerSettings;
  readonly numbers: StreamNumbers;
  /** Maximum number of concurrent streams. */
  readonly maxStreams: number;
  /** Monotonic ms. */
  readonly now: () => number;
  /** A request has begun. Called before anything else of the stream. */
  readonly onStream: (stream: Stream, method: string) => void;
  /** A bug in the handler of a stream. */
  readonly onError: (error: unknown) => void;
}

/** Its methods throw Http2Error for violations that end the connection. */
export class Incoming implements FrameSink {
  readonly #options: IncomingOptions;
  readonly #streams: OpenStreams;
  readonly #writer: FrameWriter;
  readonly #peer: PeerSettings;
  readonly #numbers: StreamNumbers;
  readonly #blocks = new HeaderBlocks();
  readonly #budget = new FrameBudget();
  /** Length of the current DATA frame, which counts against the windows. */
  #frameBytes = 0;
  /** The current DATA frame has had no content. */
  #frameIsEmpty = true;
  /** The client's first frame has arrived. */
  #begun = false;
  /** The windows of all streams have changed: see {@link settle}. */
  #windowsChanged = false;
  /** More may be sent than before: see {@link settle}. */
  #windowGrew = false;
  /** No new streams are taken. */
  retired = false;
  /** Whether the connection has ended: further frames are ignored. */
  over = false;

  constructor(options: IncomingOptions) {
    this.#options = options;
    this.#streams = options.streams;
    this.#writer = options.writer;
    this.#peer = options.peer;
    this.#numbers = options.numbers;
  }

  dataBegins(id: number, length: number): void {
    if (this.over) return;
    this.#checkOrder(FRAME.data, 0, id);
    this.#frameBytes = length;
    this.#frameIsEmpty = true;
    this.#streams.receive(length);
    const stream = this.#streams.get(id);
    if (stream === undefined) {
      this.#numbers.checkNotIdle(id, 'DATA');
      // Frames that the client sent before it learned of a reset are ignored.
      if (!this.#numbers.wasReset(id)) this.#refuse(id, ERROR.streamClosed);
      return;
    }
    if (stream.remoteClosed) this.#resetFor(stream, ERROR.streamClosed);
    stream.receiveWindow -= length;
    if (stream.receiveWindow < 0) this.#resetFor(stream, ERROR.flowControl);
  }

  data(id: number, bytes: Buffer): void {
    if (this.over) return;
    this.#frameIsEmpty = false;
    const stream = this.#streams.get(id);
    try {
      stream?.received(bytes);
    } catch (error) {
      this.#internalError(stream, error);
    }
  }

  dataEnds(id: number, flags: number): void {
    if (this.over) return;
    // An empty frame with END_STREAM is normal, because many clients end a stream with such a frame.
    if (this.#frameIsEmpty && (flags & FLAG_END_STREAM) === 0) this.#spend();
    const stream = this.#streams.get(id);
    if (stream === undefined) {
      // The stream has ended, so its bytes are returned here.
      this.#streams.giveBack(this.#frameBytes);
      return;
    }
    stream.receivedFrame(this.#frameBytes);
    if ((flags & FLAG_END_STREAM) !== 0) this.#endOf(stream);
  }

  frame(type: number, flags: number, id: number, payload: Buffer): void {
    if (this.over) return;
    this.#checkOrder(type, flags, id);
    switch (type) {
      case FRAME.headers:
        this.#blocks.begin(flags, id, payload);
        if ((flags & FLAG_END_HEADERS) !== 0) this.#headers();
        break;
      case FRAME.continuation:
        this.#spend();
        this.#blocks.continue(id, payload);
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
        throw new Http2Error(ERROR.protocol, 'PUSH_PROMISE from a client');
      case FRAME.goaway:
        if (id !== 0) throw new Http2Error(ERROR.protocol, 'GOAWAY on a stream');
        this.#spend();
        break;
      case FRAME.priority:
        if (id === 0) throw new Http2Error(ERROR.protocol, 'PRIORITY on stream 0');
        if (payload.length !== 5) throw new Http2Error(ERROR.frameSize, 'PRIORITY of the wrong size');
        this.#spend();
        break;
      default:
        this.#spend();
    }
  }

  /** The order of frames: RFC 9113 sections 3.4 and 6.10. */
  #checkOrder(type: number, flags: number, id: number): void {
    if (!this.#begun && (type !== FRAME.settings || (flags & FLAG_ACK) !== 0))
      throw new Http2Error(ERROR.protocol, 'the first frame is not SETTINGS');
    this.#begun = true;
    if (this.#blocks.open && (type !== FRAME.continuation || id !== this.#blocks.stream))
      throw new Http2Error(ERROR.protocol, 'another frame between HEADERS and its CONTINUATION');
  }

  /** Counts frames that cost the server more than the sender; see frame-budget.ts. */
  #spend(cost = 1): void {
    if (!this.#budget.spend(this.#options.now(), cost))
      throw new Http2Error(ERROR.enhanceYourCalm, 'too many useless frames');
  }

  /**
   * To be called after each read: sends what the frames of the read allow, once for all of them. Throws Http2Error for
   * violations that end the connection.
   */
  settle(): void {
    if (this.over) return;
    if (this.#windowsChanged) {
      this.#windowsChanged = false;
      this.#spend(Math.floor(this.#streams.size / STREAMS_PER_FRAME));
      for (const stream of this.#streams.all()) this.#checkWindow(stream, 0);
    }
    if (!this.#windowGrew) return;
    this.#windowGrew = false;
    this.#writer.pump();
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
    if (this.retired || this.#streams.size >= this.#options.maxStreams) this.#refuse(id, ERROR.refusedStream);
    else if (tooLarge) this.#refuse(id, ERROR.enhanceYourCalm);
    else this.#open(id, fields, endStream);
  }

  #refuse(id: number, code: ErrorCode): void {
    this.#spend();
    this.#numbers.reset(id);
    this.#writer.control(rstStream(id, code));
  }

  #open(id: number, fields: readonly HeaderField[], endStream: boolean): void {
    try {
      const head = requestHead(fields, id);
      if (endStream && (head.contentLength ?? 0) > 0)
        throw new Http2Error(ERROR.protocol, 'content-length without content', id);
      const stream = this.#streams.open(id, head);
      stream.remoteClosed = endStream;
      this.#options.onStream(stream, head.method);
      if (endStream) stream.receivedEnd();
    } catch (error) {
      const stream = this.#streams.get(id);
      if (!(error instanceof Http2Error) || error.stream === 0) this.#internalError(stream, error);
      else if (stream === undefined) this.#refuse(id, error.code);
      else this.#resetFor(stream, error.code);
    }
  }

  #trailers(stream: Stream, fields: readonly HeaderField[], endStream: boolean): void {
    try {
      if (stream.remoteClosed)
        throw new Http2Error(ERROR.streamClosed, 'HEADERS after the end of the stream', stream.id);
      if (!endStream) throw new Http2Error(ERROR.protocol, 'trailers without END_STREAM', stream.id);
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
    if (stream.contentLengthDiffers) {
      this.#resetFor(stream, ERROR.protocol);
      return;
    }
    try {
      stream.receivedEnd();
    } catch (error) {
      this.#internalError(stream, error);
    }
  }

  /**
   * A bug in a stream's handler ends that stream; a bug elsewhere ends the connection, like a violation of the client.
   */
  #internalError(stream: Stream | undefined, error: unknown): void {
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
    this.#spend();
    if ((flags & FLAG_ACK) !== 0) {
      if (payload.length > 0) throw new Http2Error(ERROR.frameSize, 'SETTINGS with ACK and content');
      return;
    }
    // The new window takes effect at once; its effects on each stream are computed once for all frames of a read.
    if (this.#peer.take(payload) !== 0) this.#windowsChanged = true;
    this.#windowGrew = true;
    this.#writer.control(SETTINGS_ACK);
  }

  /** @param blame the stream that the error belongs to when the window has grown too large */
  #checkWindow(stream: Stream, blame: number): void {
    if (stream.sendWindow > MAX_WINDOW_BYTES) throw new Http2Error(ERROR.flowControl, 'a window over 2^31-1', blame);
    this.#writer.enqueue(stream);
  }

  #ping(flags: number, id: number, payload: Buffer): void {
    if (id !== 0) throw new Http2Error(ERROR.protocol, 'PING on a stream');
    if (payload.length !== 8) throw new Http2Error(ERROR.frameSize, 'PING of the wrong size');
    this.#spend();
    if ((flags & FLAG_ACK) === 0) this.#writer.control(frame(FRAME.ping, FLAG_ACK, 0, payload));
  }

  #windowUpdate(id: number, payload: Buffer): void {
    if (payload.length !== 4) throw new Http2Error(ERROR.frameSize, 'WINDOW_UPDATE of the wrong size');
    const bytes = payload.readUInt32BE(0) & MAX_WINDOW_BYTES;
    if (bytes < TINY_UPDATE_BYTES) this.#spend();
    if (id === 0) {
      if (bytes === 0) throw new Http2Error(ERROR.protocol, 'WINDOW_UPDATE of 0');
      this.#writer.widen(bytes);
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
      stream.widen(bytes);
      this.#checkWindow(stream, id);
    }
    this.#windowGrew = true;
  }
}
