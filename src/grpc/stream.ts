/**
 * One call as an HTTP/2 stream: what it still has to send, what has come and was not taken yet, and which sides are closed. What it sends
 * is cut into DATA frames as the windows let it; the chunks themselves are never copied, unless they are so small that a copy is less
 * work than a write of their own.
 * Source: RFC 9113 sections 5.1 (states), 5.2 and 6.9 (flow control), 8.1 (messages)
 */
import type { CtlError } from '../core/errors.ts';
import { ERROR, type ErrorCode, FRAME, FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES, writeFrameHeader } from './frames.ts';
import type { RequestHead } from './headers.ts';
import type { CallReader, ConnectionInfo, Metadata, SendResult, StreamCall } from './types.ts';

/** The connection, as far as its streams need it. */
export interface StreamHost {
  readonly info: ConnectionInfo;
  /** Bytes after which a write has made progress; see {@link Stream.isStuck}. */
  readonly sliceBytes: number;
  /** Monotonic ms. */
  now(): number;
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
  readonly sendWindow: number;
  readonly receiveWindow: number;
}

interface Write {
  readonly chunks: readonly Uint8Array[];
  readonly done: (result: SendResult) => void;
}

/** DATA frames to be written, and the writes that end with them. */
export interface Batch {
  readonly stream: Stream;
  readonly pieces: Uint8Array[];
  /** Payload. */
  bytes: number;
  readonly finished: Write[];
}

/** Up to so many bytes are copied into one buffer with their frame header. */
const MAX_COPIED_BYTES = 4096;

const NOTHING: readonly Buffer[] = [];

export class Stream implements StreamCall {
  readonly id: number;
  readonly path: string;
  readonly metadata: Metadata;
  readonly connection: ConnectionInfo;
  readonly #host: StreamHost;
  sendWindow: number;
  receiveWindow: number;
  /** Bytes taken that the peer was not told of yet. */
  unreturned = 0;
  /** The client has ended its side. */
  remoteClosed = false;
  /** The answer has begun. */
  opened = false;
  #closed = false;
  #reader: CallReader | undefined;
  #paused = true;
  /** What came while reading was paused, and the bytes of its frames. */
  #held: readonly Buffer[] = NOTHING;
  #heldBytes = 0;
  #endTold = false;
  readonly #writes: Write[] = [];
  /** Where the first write goes on. */
  #chunk = 0;
  #offset = 0;
  #ending: { readonly error: CtlError | undefined } | undefined;
  /** Handed to the socket, and not left yet. */
  readonly #leaving = new Set<Batch>();
  #waitsSince = 0;
  #passed = 0;
  readonly #closeListeners: (() => void)[] = [];

  constructor({ id, head, host, sendWindow, receiveWindow }: StreamOptions) {
    this.id = id;
    this.path = head.path;
    this.metadata = head.metadata;
    this.connection = host.info;
    this.#host = host;
    this.sendWindow = sendWindow;
    this.receiveWindow = receiveWindow;
  }

  get closed(): boolean {
    return this.#closed;
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
    const held = this.#held;
    this.#held = NOTHING;
    for (let index = 0; index < held.length; index++) {
      const bytes = held[index];
      if (this.#closed || bytes === undefined) return;
      if (this.#paused) {
        this.#held = [...held.slice(index), ...this.#held];
        return;
      }
      this.#reader.data(bytes);
    }
    const taken = this.#heldBytes;
    this.#heldBytes = 0;
    if (taken > 0 && !this.#closed) this.#host.consumed(this, taken);
    this.#tellEnd();
  }

  /** Bytes of a DATA frame. */
  received(bytes: Buffer): void {
    if (this.#closed) return;
    if (this.#paused || this.#reader === undefined) this.#held = [...this.#held, Buffer.from(bytes)];
    else this.#reader.data(bytes);
  }

  /** The DATA frame is over; it has taken so much of the windows. */
  receivedFrame(length: number): void {
    if (this.#paused && !this.#closed) this.#heldBytes += length;
    else this.#host.consumed(this, length);
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
    if (this.#writes.length === 0 && this.#leaving.size === 0) this.#startWaiting();
    this.#writes.push({ chunks, done });
    this.#host.ready(this);
  }

  end(error?: CtlError): void {
    if (this.#closed || this.#ending !== undefined) return;
    this.#ending = { error };
    this.#host.ready(this);
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
    return this.#writes.length > 0 ? this.sendWindow > 0 : this.#ending !== undefined;
  }

  /** Nothing but the end is left to be sent. */
  get atEnd(): boolean {
    return this.#writes.length === 0 && this.#ending !== undefined;
  }

  /** Sends the end; see {@link atEnd}. */
  finish(): void {
    this.#host.sendEnd(this, this.#ending?.error);
    this.close();
  }

  /** Takes up to `room` bytes of what is to be sent, as DATA frames. Only when {@link canSend}, and not {@link atEnd}. */
  cut(room: number): Batch {
    const batch: Batch = { stream: this, pieces: [], bytes: 0, finished: [] };
    let left = Math.min(room, this.sendWindow);
    while (left > 0 && this.#writes.length > 0) {
      const length = Math.min(left, FRAME_PAYLOAD_BYTES, this.#pending(Math.min(left, FRAME_PAYLOAD_BYTES)));
      if (length > 0) this.#cutFrame(batch, length);
      else this.#finishEmpty(batch);
      left -= length;
    }
    this.sendWindow -= batch.bytes;
    this.#leaving.add(batch);
    return batch;
  }

  /** Bytes that wait, as far as `enough`. */
  #pending(enough: number): number {
    let sum = -this.#offset;
    let from = this.#chunk;
    for (const { chunks } of this.#writes) {
      for (let index = from; index < chunks.length; index++) {
        sum += chunks[index]?.length ?? 0;
        if (sum >= enough) return enough;
      }
      from = 0;
    }
    return sum;
  }

  /** Writes of nothing at all. */
  #finishEmpty(batch: Batch): void {
    batch.finished.push(...this.#writes.splice(0));
    this.#chunk = 0;
    this.#offset = 0;
  }

  #cutFrame(batch: Batch, length: number): void {
    const copied = length <= MAX_COPIED_BYTES;
    const head = Buffer.allocUnsafe(copied ? FRAME_HEADER_BYTES + length : FRAME_HEADER_BYTES);
    writeFrameHeader(head, 0, FRAME.data, 0, this.id, length);
    batch.pieces.push(head);
    batch.bytes += length;
    let left = length;
    while (left > 0) {
      const chunk = this.#writes[0]?.chunks[this.#chunk];
      if (chunk === undefined) {
        this.#finishFirst(batch);
        continue;
      }
      const end = Math.min(chunk.length, this.#offset + left);
      const piece = this.#offset === 0 && end === chunk.length ? chunk : chunk.subarray(this.#offset, end);
      if (copied) head.set(piece, FRAME_HEADER_BYTES + length - left);
      else if (piece.length > 0) batch.pieces.push(piece);
      left -= piece.length;
      if (end < chunk.length) this.#offset = end;
      else {
        this.#offset = 0;
        this.#chunk++;
      }
    }
    const first = this.#writes[0];
    if (first !== undefined && this.#chunk >= first.chunks.length) this.#finishFirst(batch);
  }

  #finishFirst(batch: Batch): void {
    const first = this.#writes.shift();
    if (first !== undefined) batch.finished.push(first);
    this.#chunk = 0;
    this.#offset = 0;
  }

  /** A batch has left for the socket. */
  left(batch: Batch): void {
    this.#leaving.delete(batch);
    this.#passed += batch.bytes;
    if (this.#passed >= this.#host.sliceBytes) this.#startWaiting();
    for (const { done } of batch.finished.splice(0)) done('drained');
  }

  /**
   * What waits has waited for longer than `limitMs` without a slice of it leaving for the socket: nobody reads at the other end, or so
   * slowly that it might as well be nobody.
   */
  isStuck(limitMs: number): boolean {
    return (this.#writes.length > 0 || this.#leaving.size > 0) && this.#host.now() - this.#waitsSince > limitMs;
  }

  /** Gives up what waits, and the stream with it. */
  giveUp(): void {
    this.#tellWriters('timeout');
    this.reset(ERROR.cancel);
  }

  #tellWriters(result: SendResult): void {
    const leaving = [...this.#leaving].flatMap(({ finished }) => finished.splice(0));
    for (const { done } of [...leaving, ...this.#writes.splice(0)]) done(result);
  }

  /** The stream is over: its connection has closed, it was reset, or both sides have ended. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#held = NOTHING;
    this.#host.ended(this, this.#heldBytes);
    this.#tellWriters('closed');
    for (const listener of this.#closeListeners.splice(0)) listener();
  }
}
