/**
 * Compressed responses, each body decompressed once however many proxies get it, so that the process of simulated
 * proxies takes no CPU from the server. The server begins each with the head of the stream in a block that is not
 * compressed, and the rest is the same for all streams up to the checksum.
 */
import { gunzipSync } from 'node:zlib';
import type { Body } from './bodies.ts';

/** The header of a gzip member and that of a stored block. Source: RFC 1952 section 2.3, RFC 1951 section 3.2.4 */
const MEMBER_BYTES = 10;
const STORED_BYTES = 5;
/** Checksum and length. */
const TRAILER_BYTES = 8;
/** Compressed bodies of one length that are compared. */
const MAX_ALIKE = 16;

interface Known {
  readonly rest: Buffer;
  readonly body: Body;
}

export class CompressedBodies {
  readonly #known = new Map<number, readonly Known[]>();

  /**
   * Reads a message without its prefix.
   * @param bodyOf gives the body of a response that was not seen before
   */
  read(message: Buffer, bodyOf: (head: Buffer, body: Buffer) => Body): { readonly head: Buffer; readonly body: Body } {
    if (message[MEMBER_BYTES] !== 0) throw new Error('a compressed response that does not begin with a stored block');
    const from = MEMBER_BYTES + STORED_BYTES;
    const length = message.readUInt16LE(MEMBER_BYTES + 1);
    const head = message.subarray(from, from + length);
    const rest = message.subarray(from + length, message.length - TRAILER_BYTES);
    const alike = this.#known.get(rest.length) ?? [];
    const known = alike.find((each) => each.rest.equals(rest));
    if (known !== undefined) return { head, body: known.body };
    const body = bodyOf(head, gunzipSync(message).subarray(length));
    this.#known.set(rest.length, [{ rest: Buffer.from(rest), body }, ...alike.slice(0, MAX_ALIKE - 1)]);
    return { head, body };
  }
}
