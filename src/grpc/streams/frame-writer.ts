/**
 * Writes the frames of a connection. Data is written to the socket in slices, each after the previous one was sent, so
 * that the memory of waiting data is bounded, however slowly the client reads, however small its windows are, and
 * however many frames without data it causes. Source: RFC 9113 sections 5.2 and 6.9 (flow control)
 */
import type { Socket } from 'node:net';
import { SlicePool } from '../buffers/slice-pool.ts';
import { DEFAULT_WINDOW_BYTES, ERROR, FRAME_HEADER_BYTES, Http2Error, MAX_WINDOW_BYTES } from '../frames/frames.ts';
import type { Task, TurnScheduler } from '../limits/turn-scheduler.ts';
import type { ConnectionInfo } from '../types.ts';
import { type Batch, framedBytes, MAX_COPIED_BYTES } from './send-queue.ts';
import type { Stream } from './stream.ts';

/** Bytes of a slice: large enough that slicing costs nothing, small enough to see the progress of a slow reader. */
const PLAIN_SLICE_BYTES = 256 * 1024;

/**
 * Over TLS, Node.js encrypts a whole write into buffers, some of which the connection never frees, so slices are
 * smaller: with the headers of four frames, exactly four TLS records of 16 KiB. With two, a cold start of a thousand
 * proxies takes a sixth more CPU and no less memory.
 */
const TLS_SLICE_BYTES = 4 * (16_384 - FRAME_HEADER_BYTES);

const tlsSlices = new SlicePool(framedBytes(TLS_SLICE_BYTES));

/** Maximum number of bytes of control frames that wait for a client that does not read. */
const MAX_UNREAD_BYTES = 64 * 1024;

/** Bytes added to the size of a batch: a client that allows one byte at a time must not cause thousands of writes. */
const BATCH_BYTES = 512;

/**
 * Additional memory, in bytes, of a write of this size until it is sent: over TLS, a slice and its encrypted form.
 * Without TLS, only short data is copied.
 */
export function copiedBytes(bytes: number, { secured }: Pick<ConnectionInfo, 'secured'>): number {
  return secured === undefined ? Math.min(bytes, MAX_COPIED_BYTES) : 2 * Math.min(bytes, TLS_SLICE_BYTES);
}

export interface FrameWriterOptions {
  readonly socket: Socket;
  /** Whether the socket encrypts. */
  readonly secured: boolean;
  readonly scheduler: TurnScheduler;
  /** The caller to which the time of writing is charged; may change. */
  readonly caller: () => string;
  /** The client does not read the control frames that it causes: the connection has to be closed. */
  readonly onNotRead: () => void;
}

export class FrameWriter implements Task {
  readonly sliceBytes: number;
  readonly #socket: Socket;
  readonly #slices: SlicePool | undefined;
  readonly #scheduler: TurnScheduler;
  readonly #caller: () => string;
  readonly #onNotRead: () => void;
  /** Streams with data to send, in order. */
  readonly #ready = new Set<Stream>();
  /** Streams that have only their end to send, which needs no window. */
  readonly #ending = new Set<Stream>();
  #window = DEFAULT_WINDOW_BYTES;
  /** Bytes that were written to the socket and not sent yet, including {@link BATCH_BYTES}. */
  #outstanding = 0;
  #pumping = false;
  /** Monotonic ms. */
  #delayedSince: number | undefined;
  /** Nested calls of {@link cork}. */
  #corks = 0;
  #closed = false;

  constructor({ socket, secured, scheduler, caller, onNotRead }: FrameWriterOptions) {
    this.#socket = socket;
    this.#scheduler = scheduler;
    this.#caller = caller;
    this.#slices = secured ? tlsSlices : undefined;
    this.sliceBytes = secured ? TLS_SLICE_BYTES : PLAIN_SLICE_BYTES;
    this.#onNotRead = onNotRead;
  }

  /** Whether written bytes have not been sent yet. */
  get waits(): boolean {
    return this.#outstanding > 0;
  }

  /** Writes a frame without flow control, at once. */
  control(bytes: Buffer): void {
    if (this.#closed) return;
    if (this.#full()) this.#onNotRead();
    else this.#socket.write(bytes);
  }

  #full(): boolean {
    const most = 2 * this.sliceBytes + MAX_UNREAD_BYTES;
    if (this.#socket.writableLength <= most) return false;
    // The socket may only be corked.
    for (let hold = 0; hold < this.#corks; hold++) this.#socket.uncork();
    for (let hold = 0; hold < this.#corks; hold++) this.#socket.cork();
    return this.#socket.writableLength > most;
  }

  /** Collects writes until {@link uncork}. May be nested. */
  cork(): void {
    this.#corks++;
    this.#socket.cork();
  }

  uncork(): void {
    this.#corks--;
    this.#socket.uncork();
  }

  /** Grows the connection's window. Throws Http2Error when it gets too large. */
  widen(bytes: number): void {
    this.#window += bytes;
    if (this.#window > MAX_WINDOW_BYTES) throw new Http2Error(ERROR.flowControl, 'a window over 2^31-1');
  }

  /** Queues the stream if it has something to send that its window allows; see {@link pump}. */
  enqueue(stream: Stream): void {
    if (stream.atEnd) this.#ending.add(stream);
    else if (stream.canSend) this.#ready.add(stream);
  }

  /** The stream has ended. */
  forget(stream: Stream): void {
    this.#ready.delete(stream);
    this.#ending.delete(stream);
  }

  /** Writes slices while the window allows, of each queued stream in turn. */
  pump(): void {
    // A stream that ends calls its handler, which may write to another stream.
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      while (!this.#closed) {
        for (const stream of this.#ending) stream.finish();
        const allowed = Math.min(this.sliceBytes - this.#outstanding, this.#window);
        const [stream] = this.#ready;
        if (stream === undefined || allowed <= 0) break;
        this.#ready.delete(stream);
        const batch = stream.cut(allowed, this.#slices);
        this.enqueue(stream);
        this.#write(stream, batch);
      }
    } finally {
      // A bug in one stream's handler must not stop the others.
      this.#pumping = false;
    }
  }

  get caller(): string {
    return this.#caller();
  }

  /**
   * Writes the next slice, taking turns with other callers: otherwise clients that read fast would use all the time.
   */
  #continue(): void {
    this.#delayedSince ??= this.#scheduler.now();
    this.#scheduler.start(this);
  }

  proceed(): boolean {
    const delay = this.#scheduler.now() - (this.#delayedSince ?? 0);
    for (const stream of this.#ready) stream.delayed(delay);
    this.#delayedSince = undefined;
    this.pump();
    return true;
  }

  /** Whether the next slice waits for its turn, and not for the client. */
  get delayed(): boolean {
    return this.#delayedSince !== undefined;
  }

  #write(stream: Stream, batch: Batch): void {
    const { pieces, bytes, slice } = batch;
    this.#window -= bytes;
    const counts = BATCH_BYTES + (slice === undefined ? bytes : slice.length);
    this.#outstanding += counts;
    const left = (error?: Error | null): void => {
      this.#outstanding -= counts;
      if (slice !== undefined) this.#slices?.give(slice);
      // The socket is closing; its close event follows.
      if (error instanceof Error) return;
      stream.left(batch);
      if (this.#ready.size > 0) this.#continue();
    };
    const last = pieces.pop();
    if (last === undefined) {
      left();
      return;
    }
    if (pieces.length > 0) this.#socket.cork();
    for (const piece of pieces) this.#socket.write(piece);
    this.#socket.write(last, left);
    if (pieces.length > 0) this.#socket.uncork();
  }

  /** Writes a last frame, if any, and ends the socket. */
  finish(lastFrame?: Buffer): void {
    if (this.#closed) return;
    this.close();
    // Bytes that still arrive are ignored: closing the socket now would discard data that the client has not read yet.
    if (lastFrame === undefined) this.#socket.end();
    else this.#socket.end(lastFrame);
  }

  /** Stops writing. */
  close(): void {
    this.#closed = true;
    this.#scheduler.forget(this);
    this.#ready.clear();
    this.#ending.clear();
  }
}
