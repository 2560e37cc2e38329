/**
 * Cuts the bytes of a socket into frames. The payload of DATA is passed on without a copy, in the pieces in which it
 * arrives; the short payload of other frames is passed on as a whole. Source: RFC 9113 sections 3.4 (preface), 4.1, 4.2
 * (frame size), 6.1 (DATA, padding)
 */
import { ERROR, FLAG_PADDED, FRAME, FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES, Http2Error, PREFACE } from './frames.ts';

export interface FrameSink {
  /** A DATA frame begins; `length` counts against the windows and includes padding. */
  dataBegins(stream: number, length: number): void;
  /** Payload without padding. Valid until the return. */
  data(stream: number, bytes: Buffer): void;
  dataEnds(stream: number, flags: number): void;
  /** Any other frame. The payload is valid until the return. */
  frame(type: number, flags: number, stream: number, payload: Buffer): void;
}

const NOTHING = Buffer.alloc(0);

/** Number of frames between calls of `late`, each of which costs as much as the cheapest frame. */
const FRAMES_AT_A_TIME = 16;

export class FrameReader {
  readonly #sink: FrameSink;
  #prefaceLeft = PREFACE.length;
  /** The header of a frame that arrives in several pieces. */
  #header = NOTHING;
  #headerFilled = 0;
  #inFrame = false;
  #type = 0;
  #flags = 0;
  #stream = 0;
  /** Bytes of the current frame's payload that have not arrived. */
  #left = 0;
  /** DATA: bytes of padding at the end; undefined until its length has arrived. */
  #padding: number | undefined = 0;
  /** The payload of a frame that is passed on as a whole and arrives in several pieces. */
  #payload: Buffer | undefined;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  /** Whether the preface has arrived. */
  get begun(): boolean {
    return this.#prefaceLeft === 0;
  }

  /**
   * Reads the bytes, or a first part of them until `late` returns true, which is called between frames. Throws
   * Http2Error, after which the connection cannot be read further.
   * @returns the number of bytes read, at least one
   */
  take(bytes: Buffer, late: () => boolean): number {
    let at = this.#prefaceLeft > 0 ? this.#takePreface(bytes) : 0;
    let frames = 0;
    while (at < bytes.length) {
      if (!this.#inFrame) {
        if (++frames % FRAMES_AT_A_TIME === 0 && late()) return at;
        at = this.#takeHeader(bytes, at);
      } else if (this.#type === FRAME.data) at = this.#takeData(bytes, at);
      else at = this.#takePayload(bytes, at);
    }
    return at;
  }

  #takePreface(bytes: Buffer): number {
    const length = Math.min(bytes.length, this.#prefaceLeft);
    const from = PREFACE.length - this.#prefaceLeft;
    if (PREFACE.compare(bytes, 0, length, from, from + length) !== 0)
      throw new Http2Error(ERROR.protocol, 'not HTTP/2: the connection does not begin with its preface');
    this.#prefaceLeft -= length;
    return length;
  }

  #takeHeader(bytes: Buffer, at: number): number {
    if (this.#headerFilled === 0 && bytes.length - at >= FRAME_HEADER_BYTES) {
      this.#begin(bytes, at);
      return at + FRAME_HEADER_BYTES;
    }
    if (this.#header === NOTHING) this.#header = Buffer.allocUnsafe(FRAME_HEADER_BYTES);
    const end = Math.min(bytes.length, at + FRAME_HEADER_BYTES - this.#headerFilled);
    this.#headerFilled += bytes.copy(this.#header, this.#headerFilled, at, end);
    if (this.#headerFilled === FRAME_HEADER_BYTES) {
      this.#headerFilled = 0;
      const header = this.#header;
      this.#header = NOTHING;
      this.#begin(header, 0);
    }
    return end;
  }

  #begin(header: Buffer, at: number): void {
    this.#left = (header.readUInt16BE(at) << 8) | header.readUInt8(at + 2);
    this.#type = header.readUInt8(at + 3);
    this.#flags = header.readUInt8(at + 4);
    this.#stream = header.readUInt32BE(at + 5) & 0x7fffffff;
    if (this.#left > FRAME_PAYLOAD_BYTES)
      throw new Http2Error(
        ERROR.frameSize,
        `a frame of ${this.#left} bytes; at most ${FRAME_PAYLOAD_BYTES} are accepted`,
      );
    this.#inFrame = this.#left > 0;
    if (this.#type !== FRAME.data) {
      if (!this.#inFrame) this.#sink.frame(this.#type, this.#flags, this.#stream, NOTHING);
      return;
    }
    const padded = (this.#flags & FLAG_PADDED) !== 0;
    if (padded && !this.#inFrame) throw new Http2Error(ERROR.frameSize, 'a padded frame without its padding length');
    this.#padding = padded ? undefined : 0;
    this.#sink.dataBegins(this.#stream, this.#left);
    if (!this.#inFrame) this.#sink.dataEnds(this.#stream, this.#flags);
  }

  #takeData(bytes: Buffer, start: number): number {
    let at = start;
    if (this.#padding === undefined) {
      this.#padding = bytes.readUInt8(at++);
      this.#left--;
      if (this.#padding > this.#left) throw new Http2Error(ERROR.protocol, 'padding longer than its frame');
    }
    const end = Math.min(bytes.length, at + this.#left);
    const content = Math.min(end - at, this.#left - this.#padding);
    this.#left -= end - at;
    if (content > 0) this.#sink.data(this.#stream, bytes.subarray(at, at + content));
    if (this.#left === 0) {
      this.#inFrame = false;
      this.#sink.dataEnds(this.#stream, this.#flags);
    }
    return end;
  }

  #takePayload(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#left);
    if (this.#payload === undefined && end - at === this.#left) {
      this.#inFrame = false;
      this.#sink.frame(this.#type, this.#flags, this.#stream, bytes.subarray(at, end));
      return end;
    }
    this.#payload ??= Buffer.allocUnsafe(this.#left);
    bytes.copy(this.#payload, this.#payload.length - this.#left, at, end);
    this.#left -= end - at;
    if (this.#left > 0) return end;
    const payload = this.#payload;
    this.#payload = undefined;
    this.#inFrame = false;
    this.#sink.frame(this.#type, this.#flags, this.#stream, payload);
    return end;
  }
}
