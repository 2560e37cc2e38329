/**
 * The data that a stream has to send, and its division into DATA frames. Chunks are written without a copy, unless they
 * are so small that a copy is cheaper than a write, or are encrypted, which needs contiguous bytes.
 */
import { InternalError } from '../../core/errors.ts';
import type { SlicePool } from '../buffers/slice-pool.ts';
import { FRAME, FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES, writeFrameHeader } from '../frames/frames.ts';
import type { SendResult } from '../types.ts';

export interface Write {
  readonly chunks: readonly Uint8Array[];
  readonly done: (result: SendResult) => void;
}

/** DATA frames to write, and the writes that end with them. */
export interface Batch {
  readonly pieces: Uint8Array[];
  /** Payload. */
  bytes: number;
  readonly finished: Write[];
  /** The buffer of the frames if they were copied; to be returned to its pool. */
  readonly slice: Buffer | undefined;
}

/** Up to this size, data is copied into one buffer with its frame header. */
export const MAX_COPIED_BYTES = 4096;

/** Size of the frames with this payload. */
export function framedBytes(payload: number): number {
  return payload + FRAME_HEADER_BYTES * (Math.ceil(payload / FRAME_PAYLOAD_BYTES) + 1);
}

export class SendQueue {
  readonly #stream: number;
  readonly #writes: Write[] = [];
  /** The position in the first write. */
  #chunk = 0;
  #offset = 0;

  /** @param stream number of the stream */
  constructor(stream: number) {
    this.#stream = stream;
  }

  get empty(): boolean {
    return this.#writes.length === 0;
  }

  add(write: Write): void {
    this.#writes.push(write);
  }

  /** Empties the queue. */
  clear(): Write[] {
    this.#chunk = 0;
    this.#offset = 0;
    return this.#writes.splice(0);
  }

  /**
   * Takes up to `maxBytes` bytes. If `slices` is given, more than MAX_COPIED_BYTES bytes are copied into one of its
   * buffers, which must have room for the bytes and their frame headers.
   */
  cut(maxBytes: number, slices: SlicePool | undefined): Batch {
    const slice =
      this.#pending(Math.min(maxBytes, MAX_COPIED_BYTES + 1)) > MAX_COPIED_BYTES ? slices?.take() : undefined;
    const batch: Batch = { pieces: [], bytes: 0, finished: [], slice };
    let at = 0;
    while (batch.bytes < maxBytes && this.#writes.length > 0) {
      const most = Math.min(maxBytes - batch.bytes, FRAME_PAYLOAD_BYTES);
      const length = this.#pending(most);
      if (length === 0) batch.finished.push(...this.clear());
      else if (slice !== undefined) {
        this.#copyFrame(batch, length, slice, at);
        at += FRAME_HEADER_BYTES + length;
      } else if (length <= MAX_COPIED_BYTES) {
        const frame = Buffer.allocUnsafe(FRAME_HEADER_BYTES + length);
        this.#copyFrame(batch, length, frame, 0);
        batch.pieces.push(frame);
      } else this.#shareFrame(batch, length);
      batch.bytes += length;
    }
    if (slice !== undefined && at > 0) batch.pieces.push(slice.subarray(0, at));
    return batch;
  }

  /** The number of queued bytes, counted up to `enough`. */
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

  #copyFrame(batch: Batch, length: number, target: Buffer, at: number): void {
    writeFrameHeader(target, at, FRAME.data, 0, this.#stream, length);
    const end = at + FRAME_HEADER_BYTES + length;
    for (let to = at + FRAME_HEADER_BYTES; to < end; ) {
      const piece = this.#take(batch, end - to);
      target.set(piece, to);
      to += piece.length;
    }
    this.#finishFirst(batch);
  }

  #shareFrame(batch: Batch, length: number): void {
    const header = Buffer.allocUnsafe(FRAME_HEADER_BYTES);
    writeFrameHeader(header, 0, FRAME.data, 0, this.#stream, length);
    batch.pieces.push(header);
    for (let left = length; left > 0; ) {
      const piece = this.#take(batch, left);
      batch.pieces.push(piece);
      left -= piece.length;
    }
    this.#finishFirst(batch);
  }

  /** The next bytes, at least one and at most `most`; there must be some. */
  #take(batch: Batch, most: number): Uint8Array {
    for (;;) {
      this.#finishFirst(batch);
      const chunk = this.#writes[0]?.chunks[this.#chunk];
      if (chunk === undefined) throw new InternalError('nothing is left to be sent');
      const start = this.#offset;
      const end = Math.min(chunk.length, start + most);
      if (end < chunk.length) this.#offset = end;
      else {
        this.#offset = 0;
        this.#chunk++;
      }
      if (end > start) return start === 0 && end === chunk.length ? chunk : chunk.subarray(start, end);
    }
  }

  /** Removes writes whose chunks were all taken. */
  #finishFirst(batch: Batch): void {
    for (let first = this.#writes[0]; first !== undefined; first = this.#writes[0]) {
      if (this.#chunk < first.chunks.length) return;
      batch.finished.push(first);
      this.#writes.shift();
      this.#chunk = 0;
    }
  }
}
