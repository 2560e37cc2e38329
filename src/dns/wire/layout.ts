/**
 * Finds the parts of a DNS message without decoding them, in linear time and without allocating memory for the counts
 * in its header. Messages are checked by this before `dns-packet` decodes them: it allocates four arrays of up to
 * 65,535 entries for a header of 12 bytes, cuts records at the end of the buffer, and follows chains of compression
 * pointers again for each record.
 */
import { HEADER_BYTES } from './constants.ts';

/** A resource record (RFC 1035 section 4.1.3), as offsets into its message. */
export interface RecordLayout {
  readonly section: 'answer' | 'authority' | 'additional';
  readonly start: number;
  readonly type: number;
  /** Where the fields after the type begin: class (2 bytes), TTL (4), length of the data (2), data. */
  readonly classAt: number;
  readonly ttlAt: number;
  readonly dataAt: number;
  readonly end: number;
}

export interface MessageLayout {
  /** The question section: from byte 12 to here. */
  readonly questionEnd: number;
  readonly records: readonly RecordLayout[];
}

/** A name has at most 255 bytes (RFC 1035 section 3.1). */
const MAX_NAME_BYTES = 255;
const POINTER = 0xc0;

/** Undefined for a message that is truncated, or has bytes after its last record. */
export function parseLayout(bytes: Buffer): MessageLayout | undefined {
  if (bytes.length < HEADER_BYTES) return undefined;
  let at: number | undefined = HEADER_BYTES;
  for (let count = bytes.readUInt16BE(4); count > 0; count--) {
    at = nameEnd(bytes, at);
    if (at === undefined || at + 4 > bytes.length) return undefined;
    at += 4;
  }
  const questionEnd = at;
  const records: RecordLayout[] = [];
  for (const [section, countAt] of SECTIONS) {
    // Each record takes 11 bytes at least: counts larger than the message end this at its last byte.
    for (let count = bytes.readUInt16BE(countAt); count > 0; count--) {
      const record = recordAt(bytes, at, section);
      if (record === undefined) return undefined;
      records.push(record);
      at = record.end;
    }
  }
  return at === bytes.length ? { questionEnd, records } : undefined;
}

const SECTIONS = [
  ['answer', 6],
  ['authority', 8],
  ['additional', 10],
] as const;

function recordAt(bytes: Buffer, start: number, section: RecordLayout['section']): RecordLayout | undefined {
  const at = nameEnd(bytes, start);
  if (at === undefined || at + 10 > bytes.length) return undefined;
  const dataAt = at + 10;
  const end = dataAt + bytes.readUInt16BE(at + 8);
  if (end > bytes.length) return undefined;
  return { section, start, type: bytes.readUInt16BE(at), classAt: at + 2, ttlAt: at + 4, dataAt, end };
}

/** The end of the name that begins at `start`; undefined if it has no end or is too long. A pointer ends a name. */
function nameEnd(bytes: Buffer, start: number): number | undefined {
  let at = start;
  for (;;) {
    const length = bytes[at];
    if (length === undefined) return undefined;
    if (length === 0) return at + 1 - start <= MAX_NAME_BYTES ? at + 1 : undefined;
    if ((length & POINTER) === POINTER) {
      const target = ((length & ~POINTER) << 8) | (bytes[at + 1] ?? 0);
      return at + 2 <= bytes.length && target >= HEADER_BYTES && target < start ? at + 2 : undefined;
    }
    if ((length & POINTER) !== 0) return undefined;
    at += length + 1;
    if (at - start >= MAX_NAME_BYTES) return undefined;
  }
}
