/**
 * DER (ITU-T X.690 section 10), as little of it as certificates and requests for them need: what is checked before any
 * parser sees it, where its elements lie, and what they hold. A parser that recurses as deep as its input says, or
 * believes its lengths, is how certificate requests have stopped servers (node-forge advisories); and what was signed
 * has to be taken from the original bytes, because encoding anew may give others. All of it comes from callers that
 * nobody knows yet.
 */

export const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  sequence: 0x30,
} as const;

/** One value: its tag and its content. */
export interface Tlv {
  readonly tag: number;
  readonly content: Uint8Array;
}

/** Far deeper than any request or certificate in use: names and extensions reach 8. */
const MAX_DEPTH = 16;

/** A request has about 40 elements, one with many names in its extensions a few hundred. */
const MAX_ELEMENTS = 1024;

const CONSTRUCTED = 0x20;

interface Header {
  readonly tag: number;
  /** Where the content begins. */
  readonly content: number;
  /** Where the element ends. */
  readonly end: number;
}

/**
 * Reads a header at `at`; throws an Error of one line for what DER does not allow, or an element that goes beyond
 * `limit`.
 */
function readHeader(bytes: Uint8Array, at: number, limit: number): Header {
  const tag = bytes[at];
  const first = bytes[at + 1];
  if (tag === undefined || first === undefined || at + 2 > limit) throw new Error('the ASN.1 is cut short');
  if ((tag & 0x1f) === 0x1f) throw new Error('the ASN.1 has a tag that no certificate has');
  if (first < 0x80) return within({ tag, content: at + 2, end: at + 2 + first }, limit);
  const count = first & 0x7f;
  if (count === 0) throw new Error('the ASN.1 has an indefinite length, which DER does not allow');
  if (count > 3) throw new Error('the ASN.1 has a length beyond its end');
  let length = 0;
  for (let index = 0; index < count; index++) length = length * 256 + (bytes[at + 2 + index] ?? 0);
  const minimum = count === 1 ? 0x80 : 256 ** (count - 1);
  if (length < minimum) throw new Error('the ASN.1 has a length that is not in its shortest form');
  const content = at + 2 + count;
  return within({ tag, content, end: content + length }, limit);
}

function within(header: Header, limit: number): Header {
  if (header.end > limit) throw new Error('the ASN.1 is cut short, or has a length beyond its end');
  return header;
}

/** Throws an Error of one line unless the bytes are one DER element, not nested too deep and not of too many parts. */
export function checkDer(bytes: Uint8Array): void {
  let elements = 0;
  const walk = (from: number, limit: number, depth: number): void => {
    if (depth > MAX_DEPTH) throw new Error(`the ASN.1 is nested deeper than ${MAX_DEPTH} levels`);
    for (let at = from; at < limit; ) {
      if (++elements > MAX_ELEMENTS) throw new Error(`the ASN.1 has more than ${MAX_ELEMENTS} elements`);
      const { tag, content, end } = readHeader(bytes, at, limit);
      if ((tag & CONSTRUCTED) !== 0) walk(content, end, depth + 1);
      at = end;
    }
  };
  const { end } = readHeader(bytes, 0, bytes.length);
  if (end !== bytes.length) throw new Error('there are bytes after the ASN.1');
  walk(0, bytes.length, 1);
}

/** The original bytes of the element that `path` leads to, child by child; the bytes were checked. */
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

/** Tag and content of encoded DER. */
export function splitDer(bytes: Buffer): { readonly tag: number; readonly content: Buffer } {
  const { tag, content, end } = readHeader(bytes, 0, bytes.length);
  return { tag, content: bytes.subarray(content, end) };
}

/** The values that stand one after the other in `bytes`. Throws an Error of one line for what is no DER. */
export function derValues(bytes: Uint8Array): Tlv[] {
  const values: Tlv[] = [];
  for (let at = 0; at < bytes.length; ) {
    const { tag, content, end } = readHeader(bytes, at, bytes.length);
    values.push({ tag, content: bytes.subarray(content, end) });
    at = end;
  }
  return values;
}

/** The values inside the one value that `bytes` must be. Throws an Error of one line. */
export function derInside(bytes: Uint8Array, tag: number): Tlv[] {
  const [only, more] = derValues(bytes);
  if (only?.tag !== tag || more !== undefined) throw new Error('the ASN.1 is not what was expected');
  return derValues(only.content);
}
