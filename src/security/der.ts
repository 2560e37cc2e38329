/**
 * A reader of DER (ITU-T X.690), as little of it as certificates need. It never recurses and never reads behind what it is given: what
 * it reads comes from callers that nobody knows yet.
 */
import { CtlError } from '../core/errors.ts';

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

/** Lengths of more bytes are longer than anything that fits into a TLS handshake. */
const MAX_LENGTH_BYTES = 3;

function malformed(): CtlError {
  return new CtlError('invalid_argument', 'not DER');
}

function tlvAt(bytes: Uint8Array, at: number): { readonly tlv: Tlv; readonly next: number } {
  const tag = bytes[at];
  const first = bytes[at + 1];
  // Tags of more than one byte occur nowhere in a certificate.
  if (tag === undefined || first === undefined || (tag & 0x1f) === 0x1f) throw malformed();
  let start = at + 2;
  let length = first;
  if (first >= 0x80) {
    const count = first & 0x7f;
    if (count === 0 || count > MAX_LENGTH_BYTES) throw malformed();
    length = 0;
    for (const end = start + count; start < end; start++) length = length * 256 + (bytes[start] ?? 0);
  }
  const next = start + length;
  if (next > bytes.length) throw malformed();
  return { tlv: { tag, content: bytes.subarray(start, next) }, next };
}

/** The values that stand one after the other in `bytes`. Throws CtlError invalid_argument for what is no DER. */
export function derValues(bytes: Uint8Array): Tlv[] {
  const values: Tlv[] = [];
  for (let at = 0; at < bytes.length; ) {
    const { tlv, next } = tlvAt(bytes, at);
    values.push(tlv);
    at = next;
  }
  return values;
}

/** The values inside the one value that `bytes` must be. */
export function derInside(bytes: Uint8Array, tag: number): Tlv[] {
  const [only, more] = derValues(bytes);
  if (only?.tag !== tag || more !== undefined) throw malformed();
  return derValues(only.content);
}
