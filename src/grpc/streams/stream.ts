/**
 * One call as an HTTP/2 stream: what it still has to send, what has come and was not taken yet, and which sides are
 * closed. Source: RFC 9113 sections 5.1 (states), 5.2 and 6.9 (flow control), 8.1 (messages)
 */
import type { CtlError } from '../../core/errors.ts';
import { ByteAccumulator } from '../buffers/byte-accumulator.ts';
import type { SlicePool } from '../buffers/slice-pool.ts';
import { ERROR, type ErrorCode } from '../frames/frames.ts';
import type { RequestHead } from '../headers/headers.ts';
import type { CallReader, ConnectionInfo, Metadata, SendResult, StreamCall } from '../types.ts';
import { type Batch, SendQueue } from './send-queue.ts';

/** The connection, as far as its streams need it. */
export interface StreamHost {
  readonly info: ConnectionInfo;
  /** Bytes after which a write has made progress; see {@link Stream.isStuck}. */
  readonly sliceBytes: number;
  /** What each stream may send before the client lets it send more; changes with the client's SETTINGS. */
  readonly initialSendWindow: number;
  /** Monotonic ms. */
  now(): number;
  /** What `send` sends leaves in one write. */
  together(send: () => void): void;
  /** The stream has something to send. */
  ready(stream: Stream): void;
  /** Bytes of the stream were taken by its reader: the peer may send as many again. */
  consumed(stream: Stream, bytes: number): void;
  sendHeaders(stream: Stream): void;
  /** Ends the stream with trailers, or with an answer that has nothing else. */
  sendEnd(stream: Stream, error: CtlError | undefined): void;
  sendReset(stream: Stream, code: ErrorCode): void;
  /** It is over; what was held of it is the connection's again. */
  ended(stream: Stream, heldBytes: number): void;
  retire(): void;
}

export interface StreamOptions {
  readonly id: number;
  readonly head: RequestHead;
  readonly host: StreamHost;
  readonly receiveWindow: number;
}

export class Stream implements StreamCall {
  readonly id: number;
  readonly path: string;
  readonly metadata: Metadata;
  readonly connection: ConnectionInfo;
  readonly #host: StreamHost;
  /** What the client let this stream send beyond its first window, less what was sent. */
  #sendCredit = 0;
  receiveWindow: number;
  /** Bytes taken that the peer was not told of yet. */
  unreturned = 0;
  /** The client has ended its side. */
  remoteClosed = false;
  /** The answer has begun. */
  opened = false;
  #closed = false;
  /** Bytes of content to come, when the client has said how many there will be. */
  #announced: number | undefined;
  #reader: CallReader | undefined;
  #paused = true;
  /** What came while reading was paused, and the bytes of its frames. */
  readonly #held = new ByteAccumulator();
  #heldBytes = 0;
  #endTold = false;
  readonly #writes: SendQueue;
  #ending: { readonly error: CtlError | undefined } | undefined;
  /** Handed to the socket, and not left yet. */
  readonly #leaving = new Set<Batch>();
  #waitsSince = 0;
  #passed = 0;
  readonly #closeListeners: (() => void)[] = [];

  constructor({ id, head, host, receiveWindow }: StreamOptions) {
    this.id = id;
    this.path = head.path;
    this.metadata = head.metadata;
    this.#announced = head.contentLength;
    this.connection = host.info;
    this.#host = host;
    this.#writes = new SendQueue(id);
    this.receiveWindow = receiveWindow;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /**
   * Bytes that may be sent; below nothing when the client has taken back more than was left (RFC 9113 section 6.9.2).
   */
  get sendWindow(): number {
    return this.#host.initialSendWindow + this.#sendCredit;
  }

  /** The client lets so many bytes more be sent. */
  widen(bytes: number): void {
    this.#sendCredit += bytes;
  }

  open(): void {
    if (this.#closed || this.opened) return;
    this.opened = true;
    this.#host.sendHeaders(this);
  }

  // Reading

  read(reader: CallReader): void {
    this.#reader = reader;
    this.resume();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    if (this.#reader === undefined) return;
    this.#paused = false;
    if (this.#held.length > 0) this.#reader.data(this.#held.take());
    const taken = this.#heldBytes;
    this.#heldBytes = 0;
    if (taken > 0 && !this.#closed) this.#host.consumed(this, taken);
    this.#tellEnd();
  }

  /** Bytes of a DATA frame. */
  received(bytes: Buffer): void {
    if (this.#closed) return;
    if (this.#announced !== undefined) this.#announced -= bytes.length;
    if (this.#paused || this.#reader === undefined) this.#held.add(bytes);
    else this.#reader.data(bytes);
  }

  /** The DATA frame is over; it has taken so much of the windows. */
  receivedFrame(length: number): void {
    if (this.#paused && !this.#closed) this.#heldBytes += length;
    else this.#host.consumed(this, length);
  }

  /** More or less has come than the client had said; to be asked at the end (RFC 9113 section 8.1.1). */
  get contentIsAmiss(): boolean {
    return this.#announced !== undefined && this.#announced !== 0;
  }

  /** The client has ended its side. */
  receivedEnd(): void {
    this.remoteClosed = true;
    this.#tellEnd();
  }

  #tellEnd(): void {
    if (!this.remoteClosed || this.#paused || this.#endTold || this.#closed) return;
    this.#endTold = true;
    this.#reader?.ended();
  }

  // Sending

  write(chunks: readonly Uint8Array[], done: (result: SendResult) => void): void {
    if (this.#closed || this.#ending !== undefined) {
      done('closed');
      return;
    }
    this.open();
    if (this.closed) {
      // Those headers were too much for a client that does not read.
      done('closed');
      return;
    }
    if (chunks.every(({ length }) => length === 0)) {
      // There is nothing that a window could hold back.
      done('drained');
      return;
    }
    if (this.#writes.empty && this.#leaving.size === 0) this.#startWaiting();
    this.#writes.add({ chunks, done });
    this.#host.ready(this);
  }

  end(error?: CtlError): void {
    if (this.#closed || this.#ending !== undefined) return;
    this.#ending = { error };
    this.#host.ready(this);
  }

  reply(message: readonly Uint8Array[]): void {
    this.#host.together(() => {
      this.write(message, () => {});
      this.end();
    });
  }

  abort(): void {
    this.reset(ERROR.cancel);
  }

  /** Tears the stream down and tells the peer. */
  reset(code: ErrorCode): void {
    if (this.#closed) return;
    this.#host.sendReset(this, code);
    this.close();
  }

  retireConnection(): void {
    this.#host.retire();
  }

  onClose(listener: () => void): void {
    if (this.#closed) listener();
    else this.#closeListeners.push(listener);
  }

  #startWaiting(): void {
    this.#waitsSince = this.#host.now();
    this.#passed = 0;
  }

  /** It has something to send that its window does not hold back. */
  get canSend(): boolean {
    return this.#writes.empty ? this.#ending !== undefined : this.sendWindow > 0;
  }

  /** Nothing but the end is left to be sent. */
  get atEnd(): boolean {
    return this.#writes.empty && this.#ending !== undefined;
  }

  /** Sends the end; see {@link atEnd}. */
  finish(): void {
    this.#host.sendEnd(this, this.#ending?.error);
    this.close();
  }

  /**
   * Takes up to `room` bytes of what is to be sent; see {@link SendQueue.cut}. Only when {@link canSend}, and not
   * {@link atEnd}.
   */
  cut(room: number, slices: SlicePool | undefined): Batch {
    const batch = this.#writes.cut(Math.min(room, this.sendWindow), slices);
    this.#sendCredit -= batch.bytes;
    this.#leaving.add(batch);
    return batch;
  }

  /** A batch has left for the socket. */
  left(batch: Batch): void {
    this.#leaving.delete(batch);
    this.#passed += batch.bytes;
    if (this.#passed >= this.#host.sliceBytes) this.#startWaiting();
    for (const { done } of batch.finished.splice(0)) done('drained');
  }

  /**
   * What waits has waited for longer than `limitMs` without a slice of it leaving for the socket: nobody reads at the
   * other end, or so slowly that it might as well be nobody.
   */
  isStuck(limitMs: number): boolean {
    return (!this.#writes.empty || this.#leaving.size > 0) && this.#host.now() - this.#waitsSince > limitMs;
  }

  /** Gives up what waits, and the stream with it. */
  giveUp(): void {
    this.#tellWriters('timeout');
    this.reset(ERROR.cancel);
  }

  #tellWriters(result: SendResult): void {
    const leaving = [...this.#leaving].flatMap(({ finished }) => finished.splice(0));
    for (const { done } of [...leaving, ...this.#writes.clear()]) done(result);
  }

  /** The stream is over: its connection has closed, it was reset, or both sides have ended. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#held.take();
    this.#host.ended(this, this.#heldBytes);
    this.#tellWriters('closed');
    for (const listener of this.#closeListeners.splice(0)) listener();
  }
}
