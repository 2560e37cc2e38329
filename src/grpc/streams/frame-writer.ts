/**
 * What a connection sends. Data goes to the socket in slices, the next when the one before has left, so that what waits
 * in memory is bounded whatever the client does: how slowly it reads, how small its windows are, and how much it asks
 * for that is no data. Source: RFC 9113 sections 5.2 and 6.9 (flow control)
 */
import type { Socket } from 'node:net';
import { SlicePool } from '../buffers/slice-pool.ts';
import { DEFAULT_WINDOW_BYTES, ERROR, FRAME_HEADER_BYTES, Http2Error, MAX_WINDOW_BYTES } from '../frames/frames.ts';
import { type Batch, framedBytes } from './send-queue.ts';
import type { Stream } from './stream.ts';

/**
 * Bytes on their way to the socket: large enough that slicing costs nothing, small enough that a slow reader shows
 * progress.
 */
const PLAIN_SLICE_BYTES = 256 * 1024;

/**
 * Over TLS, Node encrypts a whole write into a buffer that the connection keeps, hence less at a time: with the headers
 * of its four frames, just four TLS records of 16 KiB.
 */
const TLS_SLICE_BYTES = 4 * (16_384 - FRAME_HEADER_BYTES);

const tlsSlices = new SlicePool(framedBytes(TLS_SLICE_BYTES));

/** Answers to pings and the like that wait behind the slices for a client that does not read them. */
const MAX_UNREAD_BYTES = 64 * 1024;

/**
 * What a batch counts beyond its payload: a client whose windows let one byte pass at a time must not have us keep
 * thousands of writes.
 */
const BATCH_BYTES = 512;

export interface FrameWriterOptions {
  readonly socket: Socket;
  /** What is written gets encrypted. */
  readonly secured: boolean;
  /** The client does not read the answers that it asks for: the connection is to be closed. */
  readonly onUnread: () => void;
}

export class FrameWriter {
  readonly sliceBytes: number;
  readonly #socket: Socket;
  readonly #slices: SlicePool | undefined;
  readonly #onUnread: () => void;
  /** Streams with data to send; the first has its turn. */
  readonly #ready = new Set<Stream>();
  /** Streams that have nothing but their end to send, which needs no room. */
  readonly #ending = new Set<Stream>();
  #window = DEFAULT_WINDOW_BYTES;
  /** What was handed to the socket and has not left, as it counts: see {@link BATCH_BYTES}. */
  #outstanding = 0;
  #pumping = false;
  /** How many want what is sent to leave together. */
  #holds = 0;
  #closed = false;

  constructor({ socket, secured, onUnread }: FrameWriterOptions) {
    this.#socket = socket;
    this.#slices = secured ? tlsSlices : undefined;
    this.sliceBytes = secured ? TLS_SLICE_BYTES : PLAIN_SLICE_BYTES;
    this.#onUnread = onUnread;
  }

  /** The socket has not taken all that it was given. */
  get waits(): boolean {
    return this.#outstanding > 0;
  }

  /** Sends a frame that has no window and does not wait. */
  control(bytes: Buffer): void {
    if (this.#closed) return;
    if (this.#full()) this.#onUnread();
    else this.#socket.write(bytes);
  }

  #full(): boolean {
    const most = 2 * this.sliceBytes + MAX_UNREAD_BYTES;
    if (this.#socket.writableLength <= most) return false;
    // It may be we who hold it.
    for (let hold = 0; hold < this.#holds; hold++) this.#socket.uncork();
    for (let hold = 0; hold < this.#holds; hold++) this.#socket.cork();
    return this.#socket.writableLength > most;
  }

  /** What is sent from now on leaves together, with {@link release}. May be nested. */
  hold(): void {
    this.#holds++;
    this.#socket.cork();
  }

  release(): void {
    this.#holds--;
    this.#socket.uncork();
  }

  /** The client lets more data pass. Throws Http2Error when that is more than there can be. */
  widen(bytes: number): void {
    this.#window += bytes;
    if (this.#window > MAX_WINDOW_BYTES) throw new Http2Error(ERROR.flowControl, 'a window over 2^31-1');
  }

  /** Gives the stream its turn when it has something to send that its window does not hold back; see {@link pump}. */
  enqueue(stream: Stream): void {
    if (stream.atEnd) this.#ending.add(stream);
    else if (stream.canSend) this.#ready.add(stream);
  }

  /** The stream is over. */
  forget(stream: Stream): void {
    this.#ready.delete(stream);
    this.#ending.delete(stream);
  }

  /** Hands slices to the socket as long as there is room, of each stream that is ready in turn. */
  pump(): void {
    // A stream that ends tells its owner, who may write to another.
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      while (!this.#closed) {
        for (const stream of this.#ending) stream.finish();
        const room = Math.min(this.sliceBytes - this.#outstanding, this.#window);
        const [stream] = this.#ready;
        if (stream === undefined || room <= 0) break;
        this.#ready.delete(stream);
        const batch = stream.cut(room, this.#slices);
        this.enqueue(stream);
        this.#write(stream, batch);
      }
    } finally {
      // A fault of one stream's owner must not silence the others.
      this.#pumping = false;
    }
  }

  #write(stream: Stream, batch: Batch): void {
    const { pieces, bytes, slice } = batch;
    this.#window -= bytes;
    const counts = BATCH_BYTES + (slice === undefined ? bytes : slice.length);
    this.#outstanding += counts;
    const left = (error?: Error | null): void => {
      this.#outstanding -= counts;
      if (slice !== undefined) this.#slices?.give(slice);
      // The socket is closing, and tells so next.
      if (error instanceof Error) return;
      stream.left(batch);
      if (this.#ready.size > 0) this.pump();
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

  /** Sends nothing any more but what was written before, and the last words, if any. */
  finish(lastWords?: Buffer): void {
    if (this.#closed) return;
    this.close();
    // What still comes is passed over: to close the socket on it would take back what the client has not read yet.
    if (lastWords === undefined) this.#socket.end();
    else this.#socket.end(lastWords);
  }

  /** Sends nothing any more. */
  close(): void {
    this.#closed = true;
    this.#ready.clear();
    this.#ending.clear();
  }
}
