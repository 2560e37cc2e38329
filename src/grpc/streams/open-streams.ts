/**
 * The open streams of a connection, with what they share: the frame writer and the connection's receive window. Source:
 * RFC 9113 sections 5.1 (states), 6.9 (flow control), 8.1 (messages)
 */
import type { CtlError } from '../../core/errors.ts';
import {
  ERROR,
  type ErrorCode,
  FLAG_END_HEADERS,
  FLAG_END_STREAM,
  FRAME,
  frame,
  Http2Error,
  rstStream,
  windowUpdate,
} from '../frames/frames.ts';
import type { PeerSettings } from '../frames/peer-settings.ts';
import { RESPONSE_HEADERS, RESPONSE_HEADERS_OF, type RequestHead, trailers, trailersOnly } from '../headers/headers.ts';
import type { ConnectionInfo, MessageEncoding } from '../types.ts';
import type { FrameWriter } from './frame-writer.ts';
import { Stream, type StreamHost } from './stream.ts';
import type { StreamNumbers } from './stream-numbers.ts';

/** Receive window of a stream and of a connection, also the maximum number of bytes that wait for a reader. */
export const RECEIVE_WINDOW_BYTES = 256 * 1024;

export interface OpenStreamsOptions {
  readonly info: ConnectionInfo;
  readonly writer: FrameWriter;
  readonly peer: PeerSettings;
  readonly numbers: StreamNumbers;
  /** Monotonic ms. */
  readonly now: () => number;
  /** The last stream has ended. */
  readonly onIdle: () => void;
  /** The connection should take no new streams. */
  readonly onRetire: () => void;
  /** The caller of the connection is known. */
  readonly onCaller: (caller: string) => void;
}

export class OpenStreams implements StreamHost {
  readonly info: ConnectionInfo;
  readonly #options: OpenStreamsOptions;
  readonly #writer: FrameWriter;
  readonly #peer: PeerSettings;
  readonly #numbers: StreamNumbers;
  readonly #streams = new Map<number, Stream>();
  #receiveWindow = RECEIVE_WINDOW_BYTES;
  /** Bytes that were read and not returned to the peer's window yet. */
  #unreturned = 0;

  constructor(options: OpenStreamsOptions) {
    this.#options = options;
    this.info = options.info;
    this.#writer = options.writer;
    this.#peer = options.peer;
    this.#numbers = options.numbers;
  }

  now(): number {
    return this.#options.now();
  }

  get sliceBytes(): number {
    return this.#writer.sliceBytes;
  }

  get initialSendWindow(): number {
    return this.#peer.initialWindow;
  }

  get size(): number {
    return this.#streams.size;
  }

  get(id: number): Stream | undefined {
    return this.#streams.get(id);
  }

  /** A copy of the open streams. */
  all(): readonly Stream[] {
    return [...this.#streams.values()];
  }

  /** Opens the stream of a request. */
  open(id: number, head: RequestHead): Stream {
    const stream = new Stream({
      id,
      head,
      host: this,
      receiveWindow: RECEIVE_WINDOW_BYTES,
    });
    this.#streams.set(id, stream);
    return stream;
  }

  /** DATA of any stream has arrived. Throws Http2Error when it exceeds the window. */
  receive(bytes: number): void {
    this.#receiveWindow -= bytes;
    if (this.#receiveWindow < 0) throw new Http2Error(ERROR.flowControl, 'more data than the connection window allows');
  }

  #block(bytes: Buffer): Buffer {
    const update = this.#peer.takeTableUpdate();
    return update === undefined ? bytes : Buffer.concat([update, bytes]);
  }

  sendHeaders({ id }: Stream, encoding: MessageEncoding | undefined): void {
    const block = encoding === undefined ? RESPONSE_HEADERS : RESPONSE_HEADERS_OF[encoding];
    this.#writer.control(frame(FRAME.headers, FLAG_END_HEADERS, id, this.#block(block)));
  }

  sendEnd(stream: Stream, error: CtlError | undefined): void {
    this.sendAnswer(stream, stream.opened ? trailers(error) : trailersOnly(error));
  }

  /** Sends a header block that ends the stream. */
  sendAnswer(stream: Stream, block: Buffer): void {
    const { id, remoteClosed } = stream;
    this.#writer.control(frame(FRAME.headers, FLAG_END_HEADERS | FLAG_END_STREAM, id, this.#block(block)));
    // RFC 9113 section 8.1: the rest of the request is not needed.
    if (!remoteClosed) this.sendReset(stream, ERROR.none);
  }

  sendReset({ id }: Stream, code: ErrorCode): void {
    this.#numbers.reset(id);
    this.#writer.control(rstStream(id, code));
  }

  together(send: () => void): void {
    this.#writer.cork();
    try {
      send();
    } finally {
      this.#writer.uncork();
    }
  }

  ready(stream: Stream): void {
    this.#writer.enqueue(stream);
    this.#writer.pump();
  }

  /** With a single stream, both windows are returned in one write. */
  consumed(stream: Stream, bytes: number): void {
    stream.unreturned += bytes;
    this.#unreturned += bytes;
    if (stream.unreturned < RECEIVE_WINDOW_BYTES / 2 || stream.remoteClosed || stream.closed) {
      this.giveBack(0);
      return;
    }
    const ofStream = windowUpdate(stream.id, stream.unreturned);
    stream.receiveWindow += stream.unreturned;
    stream.unreturned = 0;
    const ofConnection = this.#returned();
    this.#writer.control(ofConnection === undefined ? ofStream : Buffer.concat([ofStream, ofConnection]));
  }

  /** Returns bytes that were read or ignored to the connection's window. */
  giveBack(bytes: number): void {
    this.#unreturned += bytes;
    const update = this.#returned();
    if (update !== undefined) this.#writer.control(update);
  }

  /** The frame that returns bytes to the connection's window; undefined while they are few. */
  #returned(): Buffer | undefined {
    if (this.#unreturned < RECEIVE_WINDOW_BYTES / 2) return undefined;
    const update = windowUpdate(0, this.#unreturned);
    this.#receiveWindow += this.#unreturned;
    this.#unreturned = 0;
    return update;
  }

  ended(stream: Stream, held: number): void {
    this.giveBack(held);
    this.#streams.delete(stream.id);
    this.#writer.forget(stream);
    if (this.#streams.size === 0) this.#options.onIdle();
  }

  retire(): void {
    this.#options.onRetire();
  }

  isOf(caller: string): void {
    this.#options.onCaller(caller);
  }
}
