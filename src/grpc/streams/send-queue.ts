/**
 * What a stream still has to send, and how it is cut into DATA frames. Chunks go out as they are, unless they are so
 * small that a copy is less work than a write of their own, or have to be encrypted, for which they must lie side by
 * side anyway.
 */
import { InternalError } from '../../core/errors.ts';
import type { SlicePool } from '../buffers/slice-pool.ts';
import { FRAME, FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES, writeFrameHeader } from '../frames/frames.ts';
import type { SendResult } from '../types.ts';

export interface Write {
  readonly chunks: readonly Uint8Array[];
  readonly done: (result: SendResult) => void;
}

/** DATA frames to be written, and the writes that end with them. */
export interface Batch {
  readonly pieces: Uint8Array[];
  /** Payload. */
  bytes: number;
  readonly finished: Write[];
  /** Where the frames lie when they were copied; to be given back. */
  readonly slice: Buffer | undefined;
}

/** Up to so many bytes are copied into one buffer with their frame header. */
const MAX_COPIED_BYTES = 4096;

/** Bytes that frames with so much payload take. */
export function framedBytes(payload: number): number {
  return payload + FRAME_HEADER_BYTES * (Math.ceil(payload / FRAME_PAYLOAD_BYTES) + 1);
}

export class SendQueue {
  readonly #stream: number;
  readonly #writes: Write[] = [];
  /** Where the first write goes on. */
  #chunk = 0;
  #offset = 0;

  /** @param stream number of the stream that the frames are of */
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
   * Takes up to `room` bytes; with `slices`, which must hold them and their frames, they are copied into one of those
   * unless they are few.
   */
  cut(room: number, slices: SlicePool | undefined): Batch {
    const slice = this.#pending(Math.min(room, MAX_COPIED_BYTES + 1)) > MAX_COPIED_BYTES ? slices?.take() : undefined;
    const batch: Batch = { pieces: [], bytes: 0, finished: [], slice };
    let at = 0;
    while (batch.bytes < room && this.#writes.length > 0) {
      const most = Math.min(room - batch.bytes, FRAME_PAYLOAD_BYTES);
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

  /** The next bytes, at most so many, at least one: there are some. */
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

  /** Lets go of writes all of whose chunks were taken. */
  #finishFirst(batch: Batch): void {
    for (let first = this.#writes[0]; first !== undefined; first = this.#writes[0]) {
      if (this.#chunk < first.chunks.length) return;
      batch.finished.push(first);
      this.#writes.shift();
      this.#chunk = 0;
    }
  }
}
