/**
 * Checks and slices DER (ITU-T X.690 section 10) that comes from unauthenticated callers. Two things that node-forge
 * does not do: before it parses, nesting, number and lengths of the elements are checked, because a parser that
 * recurses as deep as its input says, or trusts its lengths, lets a certificate request stop the server (node-forge
 * advisories). And the signed part is sliced from the original bytes, because encoding it again may give other bytes.
 */
import { CtlError } from '../core/errors.ts';

/** Far deeper than any request or certificate in use: names and extensions reach 8. */
const MAX_DEPTH = 16;

/** A request has about 40 elements, one with many names in its extensions a few hundred. */
const MAX_ELEMENTS = 1024;

const CONSTRUCTED = 0x20;

/** The number of the tag of BMPString, whose characters have two bytes. */
const BMP_STRING = 0x1e;

interface Header {
  readonly tag: number;
  /** Offset of the content. */
  readonly content: number;
  /** Offset of the element's end. */
  readonly end: number;
}

function malformed(reason: string): CtlError {
  return new CtlError('invalid_argument', reason);
}

/** Reads the header at `at`. Throws CtlError for what DER does not allow, or an element that extends beyond `limit`. */
function readHeader(bytes: Uint8Array, at: number, limit: number): Header {
  const tag = bytes[at];
  const first = bytes[at + 1];
  if (tag === undefined || first === undefined || at + 2 > limit) throw malformed('the ASN.1 is cut short');
  if ((tag & 0x1f) === 0x1f) throw malformed('the ASN.1 has a tag that no certificate has');
  if (first < 0x80) return within({ tag, content: at + 2, end: at + 2 + first }, limit);
  const count = first & 0x7f;
  if (count === 0) throw malformed('the ASN.1 has an indefinite length, which DER does not allow');
  if (count > 3) throw malformed('the ASN.1 has a length beyond its end');
  let length = 0;
  for (let index = 0; index < count; index++) length = length * 256 + (bytes[at + 2 + index] ?? 0);
  const minimum = count === 1 ? 0x80 : 256 ** (count - 1);
  if (length < minimum) throw malformed('the ASN.1 has a length that is not in its shortest form');
  const content = at + 2 + count;
  return within({ tag, content, end: content + length }, limit);
}

function within(header: Header, limit: number): Header {
  if (header.end > limit) throw malformed('the ASN.1 is cut short, or has a length beyond its end');
  return header;
}

/**
 * Throws CtlError invalid_argument of one line unless the bytes are one DER element, of bounded depth and number of
 * parts.
 */
export function checkDer(bytes: Uint8Array): void {
  let elements = 0;
  const walk = (from: number, limit: number, depth: number): void => {
    if (depth > MAX_DEPTH) throw malformed(`the ASN.1 is nested deeper than ${MAX_DEPTH} levels`);
    for (let at = from; at < limit; ) {
      if (++elements > MAX_ELEMENTS) throw malformed(`the ASN.1 has more than ${MAX_ELEMENTS} elements`);
      const { tag, content, end } = readHeader(bytes, at, limit);
      if ((tag & CONSTRUCTED) !== 0) walk(content, end, depth + 1);
      // In any tag class, node-forge reads such an element one byte too far, and then finds others than OpenSSL.
      else if ((tag & 0x1f) === BMP_STRING && (end - content) % 2 !== 0)
        throw malformed('the ASN.1 has a string of two-byte characters and an odd length');
      at = end;
    }
  };
  const { end } = readHeader(bytes, 0, bytes.length);
  if (end !== bytes.length) throw malformed('there are bytes after the ASN.1');
  walk(0, bytes.length, 1);
}

/**
 * The original bytes of an element: `path` has the index of the child to take at each level. Throws CtlError
 * invalid_argument when there is no such element.
 */
export function sliceDer(bytes: Buffer, path: readonly number[]): Buffer {
  let at = 0;
  let header = readHeader(bytes, 0, bytes.length);
  for (const index of path) {
    const { end } = header;
    at = header.content;
    header = readHeader(bytes, at, end);
    for (let child = 0; child < index; child++) {
      at = header.end;
      header = readHeader(bytes, at, end);
    }
  }
  return bytes.subarray(at, header.end);
}

/** Tag and content of one element. Throws CtlError invalid_argument. */
export function splitDer(bytes: Buffer): { readonly tag: number; readonly content: Buffer } {
  const { tag, content, end } = readHeader(bytes, 0, bytes.length);
  return { tag, content: bytes.subarray(content, end) };
}
