/** Reads what clients send: a valid query, or the response code that it deserves. */
import { decode } from 'dns-packet';
import type { DnsEdns, DnsQuery } from '../types.ts';
import { CLASS_IN, HEADER_BYTES, RCODE, TYPE } from './constants.ts';
import { layoutOf } from './layout.ts';

/** A query has one name, at most 255 bytes, and EDNS options: larger messages are refused. */
export const MAX_QUERY_BYTES = 4096;
/** An OPT record, a signature, and one record of an unknown kind. */
const MAX_ADDITIONAL = 4;
/** A name consists of characters that tables may contain; a dot within a label cannot be told from one between them. */
const FIRST_PRINTABLE = 0x21;
const LAST_PRINTABLE = 0x7e;
const DOT = 0x2e;
/** Transfers of zones, and types that are no data (RFC 6895 section 3.1); ANY is a question of its own. */
const isMetaType = (type: number) => type === TYPE.OPT || (type >= 128 && type < TYPE.ANY);

export interface UnusableQuery {
  /** Response code; undefined: no response at all. */
  readonly rcode: number | undefined;
  /** The response repeats the question, which ends here. */
  readonly questionEnd?: number | undefined;
  /** The response has an OPT record (RFC 6891 section 6.1.3 wants one for BADVERS). */
  readonly edns: boolean;
}

const IGNORED: UnusableQuery = { rcode: undefined, edns: false };
const unusable = (rcode: number, questionEnd?: number): UnusableQuery => ({ rcode, questionEnd, edns: false });

/**
 * Never throws. Responses get no response, so that two servers cannot be made to answer each other. Other operations
 * than queries are answered NOTIMP, messages without exactly one question FORMERR (RFC 9619), classes other than IN and
 * transfers REFUSED.
 */
export function readQuery(bytes: Buffer): DnsQuery | UnusableQuery {
  if (bytes.length < HEADER_BYTES) return IGNORED;
  const flags = bytes.readUInt16BE(2);
  if ((flags & 0x8000) !== 0) return IGNORED;
  if ((flags & 0x7800) !== 0) return unusable(RCODE.NOTIMP);
  // One question, neither answers nor authorities.
  const oneQuestion = bytes.readUInt16BE(4) === 1 && bytes.readUInt32BE(6) === 0;
  if (!oneQuestion || bytes.readUInt16BE(10) > MAX_ADDITIONAL) return unusable(RCODE.FORMERR);
  if (bytes.length > MAX_QUERY_BYTES) return unusable(RCODE.FORMERR);
  const layout = layoutOf(bytes);
  if (layout === undefined) return unusable(RCODE.FORMERR);
  const { questionEnd, records } = layout;
  const isHostName = checkName(bytes, questionEnd - 4);
  if (isHostName === undefined || records.filter(({ type }) => type === TYPE.OPT).length > 1)
    return unusable(RCODE.FORMERR);
  const type = bytes.readUInt16BE(questionEnd - 4);
  if (bytes.readUInt16BE(questionEnd - 2) !== CLASS_IN || isMetaType(type)) return unusable(RCODE.REFUSED, questionEnd);
  return decoded(bytes, questionEnd, type, isHostName);
}

function decoded(bytes: Buffer, questionEnd: number, type: number, isHostName: boolean): DnsQuery | UnusableQuery {
  let packet: ReturnType<typeof decode>;
  try {
    packet = decode(bytes);
  } catch {
    return unusable(RCODE.FORMERR);
  }
  const opt = packet.additionals?.find((record) => record.type === 'OPT');
  if (opt !== undefined && opt.ednsVersion !== 0) return { rcode: RCODE.BADVERS, questionEnd, edns: true };
  const edns: DnsEdns | undefined =
    opt === undefined ? undefined : { udpPayload: opt.udpPayloadSize, dnssecOk: opt.flag_do };
  const name = packet.questions?.[0]?.name ?? '';
  const known = isHostName ? (name === '.' ? '' : name.toLowerCase()) : undefined;
  return { bytes, questionEnd, name: known, type, edns };
}

/**
 * Whether the name of the question has only characters that tables may contain; undefined for a compressed name, which
 * the first name of a message cannot be.
 */
function checkName(bytes: Buffer, end: number): boolean | undefined {
  let printable = true;
  let at = HEADER_BYTES;
  for (;;) {
    const length = bytes[at++] ?? 0;
    if (length === 0) return at === end ? printable : undefined;
    if (length > 63) return undefined;
    for (const stop = at + length; at < stop; at++) {
      const byte = bytes[at] ?? 0;
      if (byte < FIRST_PRINTABLE || byte > LAST_PRINTABLE || byte === DOT) printable = false;
    }
  }
}
