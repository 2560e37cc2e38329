/**
 * Assembles header blocks from HEADERS and CONTINUATION frames. All blocks of a connection share one compression table,
 * so each has to be decoded, even if its stream is refused. Source: RFC 9113 sections 4.3, 6.2, 6.10; RFC 7541
 */
import { ERROR, FLAG_END_STREAM, FLAG_PADDED, FLAG_PRIORITY, Http2Error } from '../frames/frames.ts';
import { HpackDecoder } from '../hpack/decoder.ts';
import { HeaderListTooLarge, HpackError } from '../hpack/errors.ts';
import type { HeaderField } from '../hpack/types.ts';

/** Largest header list of a request; a gRPC call has a few hundred bytes, with a token a few thousand. */
export const MAX_HEADER_LIST_BYTES = 64 * 1024;

/** The default of HTTP/2, which the server does not change. */
const MAX_TABLE_BYTES = 4096;

/** Largest compressed block. */
const MAX_BLOCK_BYTES = MAX_HEADER_LIST_BYTES;

const PRIORITY_BYTES = 5;

const NO_FIELDS: readonly HeaderField[] = [];

export class HeaderBlocks {
  readonly #decoder = new HpackDecoder({ maxTableBytes: MAX_TABLE_BYTES, maxListBytes: MAX_HEADER_LIST_BYTES });
  #parts: Buffer[] = [];
  #bytes = 0;
  /** The stream of the current block. */
  stream = 0;
  endStream = false;
  /** The block is not complete. */
  open = false;

  /** HEADERS. */
  begin(flags: number, stream: number, payload: Buffer): void {
    if (stream === 0) throw new Http2Error(ERROR.protocol, 'HEADERS on stream 0');
    this.stream = stream;
    this.endStream = (flags & FLAG_END_STREAM) !== 0;
    this.open = true;
    this.#parts = [];
    this.#bytes = 0;
    this.#add(fragmentOf(flags, stream, payload));
  }

  /** CONTINUATION. */
  continue(stream: number, payload: Buffer): void {
    if (!this.open || stream !== this.stream)
      throw new Http2Error(ERROR.protocol, 'CONTINUATION without HEADERS before it');
    this.#add(payload);
  }

  #add(fragment: Buffer): void {
    this.#bytes += fragment.length;
    if (this.#bytes > MAX_BLOCK_BYTES)
      throw new Http2Error(ERROR.enhanceYourCalm, `a header block over ${MAX_BLOCK_BYTES} bytes`);
    this.#parts.push(Buffer.from(fragment));
  }

  /** The block is complete. With `tooLarge`, it exceeded the limit and `fields` is empty. */
  finish(): { readonly fields: readonly HeaderField[]; readonly tooLarge: boolean } {
    const [first] = this.#parts;
    const block = this.#parts.length === 1 && first !== undefined ? first : Buffer.concat(this.#parts);
    this.#parts = [];
    this.open = false;
    try {
      return { fields: this.#decoder.decode(block), tooLarge: false };
    } catch (error) {
      if (error instanceof HeaderListTooLarge) return { fields: NO_FIELDS, tooLarge: true };
      if (error instanceof HpackError) throw new Http2Error(ERROR.compression, error.message);
      throw error;
    }
  }
}

/** The payload of HEADERS without padding and priority. */
function fragmentOf(flags: number, stream: number, payload: Buffer): Buffer {
  let start = 0;
  let end = payload.length;
  if ((flags & FLAG_PADDED) !== 0) {
    if (end < 1) throw new Http2Error(ERROR.frameSize, 'a padded frame without its padding length');
    end -= payload.readUInt8(0);
    start = 1;
  }
  if ((flags & FLAG_PRIORITY) !== 0) {
    if (end - start >= 4 && (payload.readUInt32BE(start) & 0x7fffffff) === stream)
      throw new Http2Error(ERROR.protocol, 'a stream that depends on itself');
    start += PRIORITY_BYTES;
  }
  if (start > end) throw new Http2Error(ERROR.protocol, 'padding longer than its frame');
  return payload.subarray(start, end);
}
