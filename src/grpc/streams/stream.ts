/**
 * One call as an HTTP/2 stream: the data to send, the data that arrived and was not read yet, and which sides are
 * closed. Source: RFC 9113 sections 5.1 (states), 5.2 and 6.9 (flow control), 8.1 (messages)
 */
import type { CtlError } from '../../core/errors.ts';
import { ByteAccumulator } from '../buffers/byte-accumulator.ts';
import type { SlicePool } from '../buffers/slice-pool.ts';
import { ERROR, type ErrorCode } from '../frames/frames.ts';
import type { RequestHead } from '../headers/headers.ts';
import type { CallReader, ConnectionInfo, MessageEncoding, Metadata, SendResult, StreamCall } from '../types.ts';
import { type Batch, SendQueue } from './send-queue.ts';

/** The part of the connection that its streams use. */
export interface StreamHost {
  readonly info: ConnectionInfo;
  /** Bytes that count as progress of a write; see {@link Stream.isStuck}. */
  readonly sliceBytes: number;
  /** Initial send window of each stream; changes with the client's SETTINGS. */
  readonly initialSendWindow: number;
  /** Monotonic ms. */
  now(): number;
  /** Collects everything that `send` writes in one write. */
  together(send: () => void): void;
  /** The stream has something to send. */
  ready(stream: Stream): void;
  /** Bytes of the stream were read: the peer may send the same number again. */
  consumed(stream: Stream, bytes: number): void;
  sendHeaders(stream: Stream, encoding: MessageEncoding | undefined): void;
  /** Ends the stream with trailers, or with headers alone. */
  sendEnd(stream: Stream, error: CtlError | undefined): void;
  sendReset(stream: Stream, code: ErrorCode): void;
  /** The stream is over; its unread bytes return to the connection's window. */
  ended(stream: Stream, unreadBytes: number): void;
  retire(): void;
  /** The caller of the connection is known. */
  isOf(caller: string): void;
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
  /** Bytes that the client allowed beyond the initial window, less the bytes that were sent. */
  #sendCredit = 0;
  receiveWindow: number;
  /** Bytes that were read and not returned to the peer's window yet. */
  unreturned = 0;
  /** The client has ended its side. */
  remoteClosed = false;
  /** The response has begun. */
  opened = false;
  #closed = false;
  /** Bytes of content that have not arrived, if the client has announced their number. */
  #announced: number | undefined;
  #reader: CallReader | undefined;
  #paused = true;
  /** Data that arrived while reading was paused, and the length of its frames. */
  readonly #unread = new ByteAccumulator();
  #unreadBytes = 0;
  #endDelivered = false;
  readonly #writes: SendQueue;
  #ending: { readonly error: CtlError | undefined } | undefined;
  /** Batches that were written and not sent yet. */
  readonly #leaving = new Set<Batch>();
  #waitingSince = 0;
  #progress = 0;
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
   * Bytes that may be sent; negative when the client has reduced the window below what was sent (RFC 9113 section
   * 6.9.2).
   */
  get sendWindow(): number {
    return this.#host.initialSendWindow + this.#sendCredit;
  }

  /** The client allows more bytes. */
  widen(bytes: number): void {
    this.#sendCredit += bytes;
  }

  open(encoding?: MessageEncoding): void {
    if (this.#closed || this.opened) return;
    this.opened = true;
    this.#host.sendHeaders(this, encoding);
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
    if (this.#unread.length > 0) this.#reader.data(this.#unread.take());
    const taken = this.#unreadBytes;
    this.#unreadBytes = 0;
    if (taken > 0 && !this.#closed) this.#host.consumed(this, taken);
    this.#deliverEnd();
  }

  /** Payload of a DATA frame. */
  received(bytes: Buffer): void {
    if (this.#closed) return;
    if (this.#announced !== undefined) this.#announced -= bytes.length;
    if (this.#paused || this.#reader === undefined) this.#unread.add(bytes);
    else this.#reader.data(bytes);
  }

  /** A DATA frame has ended; `length` was counted against the windows. */
  receivedFrame(length: number): void {
    if (this.#paused && !this.#closed) this.#unreadBytes += length;
    else this.#host.consumed(this, length);
  }

  /**
   * Whether the length of the content differs from the announced one; valid at the end of the request (RFC 9113 section
   * 8.1.1).
   */
  get contentLengthDiffers(): boolean {
    return this.#announced !== undefined && this.#announced !== 0;
  }

  /** The client has ended its side. */
  receivedEnd(): void {
    this.remoteClosed = true;
    this.#deliverEnd();
  }

  #deliverEnd(): void {
    if (!this.remoteClosed || this.#paused || this.#endDelivered || this.#closed) return;
    this.#endDelivered = true;
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
      // The headers closed the connection of a client that does not read.
      done('closed');
      return;
    }
    if (chunks.every(({ length }) => length === 0)) {
      // Without bytes there is nothing to wait for.
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

  /** Resets the stream. */
  reset(code: ErrorCode): void {
    if (this.#closed) return;
    this.#host.sendReset(this, code);
    this.close();
  }

  retireConnection(): void {
    this.#host.retire();
  }

  isOf(caller: string): void {
    this.#host.isOf(caller);
  }

  onClose(listener: () => void): void {
    if (this.#closed) listener();
    else this.#closeListeners.push(listener);
  }

  #startWaiting(): void {
    this.#waitingSince = this.#host.now();
    this.#progress = 0;
  }

  /** The stream has something to send that its window allows. */
  get canSend(): boolean {
    return this.#writes.empty ? this.#ending !== undefined : this.sendWindow > 0;
  }

  /** Only the end of the response is left to send. */
  get atEnd(): boolean {
    return this.#writes.empty && this.#ending !== undefined;
  }

  /** Sends the end of the response; see {@link atEnd}. */
  finish(): void {
    this.#host.sendEnd(this, this.#ending?.error);
    this.close();
  }

  /**
   * Takes up to `maxBytes` of the data to send; see {@link SendQueue.cut}. Requires {@link canSend} and not
   * {@link atEnd}.
   */
  cut(maxBytes: number, slices: SlicePool | undefined): Batch {
    const batch = this.#writes.cut(Math.min(maxBytes, this.sendWindow), slices);
    this.#sendCredit -= batch.bytes;
    this.#leaving.add(batch);
    return batch;
  }

  /** A batch has left the socket. */
  left(batch: Batch): void {
    this.#leaving.delete(batch);
    this.#progress += batch.bytes;
    if (this.#progress >= this.#host.sliceBytes) this.#startWaiting();
    for (const { done } of batch.finished.splice(0)) done('drained');
  }

  /** Its data has waited for this time, ms, for a reason other than the client. */
  delayed(milliseconds: number): void {
    this.#waitingSince += milliseconds;
  }

  /**
   * Whether data has waited for more than `limitMs` without the progress of a slice: the client does not read, or reads
   * too slowly.
   */
  isStuck(limitMs: number): boolean {
    return (!this.#writes.empty || this.#leaving.size > 0) && this.#host.now() - this.#waitingSince > limitMs;
  }

  /** Drops waiting data, and resets the stream. */
  giveUp(): void {
    this.#finishWrites('timeout');
    this.reset(ERROR.cancel);
  }

  #finishWrites(result: SendResult): void {
    const leaving = [...this.#leaving].flatMap(({ finished }) => finished.splice(0));
    for (const { done } of [...leaving, ...this.#writes.clear()]) done(result);
  }

  /** The stream is over: its connection has closed, it was reset, or both sides have ended it. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#unread.take();
    this.#host.ended(this, this.#unreadBytes);
    this.#finishWrites('closed');
    for (const listener of this.#closeListeners.splice(0)) listener();
  }
}
