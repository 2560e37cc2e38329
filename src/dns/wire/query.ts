/**
 * Reads messages of clients: returns a valid query, or the response code for an invalid one. Nearly all queries have
 * one question and at most an OPT record without options. These are read here, without `dns-packet`, whose objects cost
 * more than everything else that a response needs.
 */
import { decode } from 'dns-packet';
import type { DnsEdns, DnsQuery } from '../types.ts';
import { CLASS_IN, HEADER_BYTES, RCODE, TYPE } from './constants.ts';
import { parseLayout } from './layout.ts';

/** A query has one name, at most 255 bytes, and EDNS options: larger messages are refused. */
export const MAX_QUERY_BYTES = 4096;
/** An OPT record, a signature, and one record of an unknown kind. */
const MAX_ADDITIONAL = 4;
/** Names have only characters that tables may contain; a dot within a label would look like a separator. */
const FIRST_PRINTABLE = 0x21;
const LAST_PRINTABLE = 0x7e;
const DOT = 0x2e;
/** Larger values of the length byte are compression pointers (RFC 1035 section 4.1.4). */
const MAX_LABEL_BYTES = 63;
/** Transfers of zones, and types that are not data (RFC 6895 section 3.1); ANY is handled separately. */
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
 * Never throws. Responses get no response, so that two servers cannot be made to answer each other. Operations other
 * than queries receive NOTIMP, messages without exactly one question FORMERR (RFC 9619), and classes other than IN and
 * zone transfers REFUSED.
 */
export function readQuery(bytes: Buffer): DnsQuery | UnusableQuery {
  return readPlainQuery(bytes) ?? readAnyQuery(bytes);
}

class WireQuery implements DnsQuery {
  readonly bytes: Buffer;
  readonly questionEnd: number;
  readonly type: number;
  readonly edns: DnsEdns | undefined;

  constructor(bytes: Buffer, questionEnd: number, type: number, edns: DnsEdns | undefined) {
    this.bytes = bytes;
    this.questionEnd = questionEnd;
    this.type = type;
    this.edns = edns;
  }

  get wireName(): string {
    return this.bytes.toString('latin1', HEADER_BYTES, this.questionEnd - 5);
  }

  get name(): string | undefined {
    return checkName(this.bytes, this.questionEnd - 4) === true ? dottedName(this.wireName).toLowerCase() : undefined;
  }
}

/** The dotted form of a name, without its root label. */
function dottedName(wireName: string): string {
  const labels: string[] = [];
  for (let at = 0; at < wireName.length; ) {
    const end = at + 1 + wireName.charCodeAt(at);
    labels.push(wireName.slice(at + 1, end));
    at = end;
  }
  return labels.join('.');
}

/** Root name, type, UDP payload, extended response code, version, flags, length of the options: RFC 6891 section 6.1. */
const OPT_BYTES = 11;
const NO_RECORDS = 0;
const ONE_ADDITIONAL = 1;
const ONE_QUESTION = 0x10000;
const MAX_NAME_BYTES = 255;

/** Undefined for every message that is not a usual query: it may still be valid, and is then parsed completely. */
export function readPlainQuery(bytes: Buffer): DnsQuery | undefined {
  const { length } = bytes;
  if (length < HEADER_BYTES || ((bytes[2] ?? 0) & 0xf8) !== 0 || bytes.readUInt32BE(4) !== ONE_QUESTION)
    return undefined;
  let nameEnd = HEADER_BYTES;
  for (let label = bytes[nameEnd]; label !== 0; label = bytes[nameEnd]) {
    if (label === undefined || label > MAX_LABEL_BYTES) return undefined;
    nameEnd += label + 1;
  }
  const questionEnd = nameEnd + 5;
  if (nameEnd >= HEADER_BYTES + MAX_NAME_BYTES || questionEnd > length) return undefined;
  const type = bytes.readUInt16BE(nameEnd + 1);
  if (bytes.readUInt16BE(nameEnd + 3) !== CLASS_IN || isMetaType(type)) return undefined;
  const records = bytes.readUInt32BE(8);
  if (records === NO_RECORDS && questionEnd === length) return new WireQuery(bytes, questionEnd, type, undefined);
  if (records !== ONE_ADDITIONAL || questionEnd + OPT_BYTES !== length) return undefined;
  const isPlain =
    bytes[questionEnd] === 0 &&
    bytes.readUInt16BE(questionEnd + 1) === TYPE.OPT &&
    bytes[questionEnd + 6] === 0 &&
    bytes.readUInt16BE(questionEnd + 9) === 0;
  if (!isPlain) return undefined;
  const dnssecOk = ((bytes[questionEnd + 7] ?? 0) & 0x80) !== 0;
  return new WireQuery(bytes, questionEnd, type, { udpPayload: bytes.readUInt16BE(questionEnd + 3), dnssecOk });
}

/** Parses any message completely, with all checks. */
export function readAnyQuery(bytes: Buffer): DnsQuery | UnusableQuery {
  if (bytes.length < HEADER_BYTES) return IGNORED;
  const flags = bytes.readUInt16BE(2);
  if ((flags & 0x8000) !== 0) return IGNORED;
  if ((flags & 0x7800) !== 0) return unusable(RCODE.NOTIMP);
  // Exactly one question, and no answers or authorities.
  const oneQuestion = bytes.readUInt16BE(4) === 1 && bytes.readUInt32BE(6) === 0;
  if (!oneQuestion || bytes.readUInt16BE(10) > MAX_ADDITIONAL) return unusable(RCODE.FORMERR);
  if (bytes.length > MAX_QUERY_BYTES) return unusable(RCODE.FORMERR);
  const layout = parseLayout(bytes);
  if (layout === undefined) return unusable(RCODE.FORMERR);
  const { questionEnd, records } = layout;
  if (checkName(bytes, questionEnd - 4) === undefined || records.filter(({ type }) => type === TYPE.OPT).length > 1)
    return unusable(RCODE.FORMERR);
  const type = bytes.readUInt16BE(questionEnd - 4);
  if (bytes.readUInt16BE(questionEnd - 2) !== CLASS_IN || isMetaType(type)) return unusable(RCODE.REFUSED, questionEnd);
  return decoded(bytes, questionEnd, type);
}

function decoded(bytes: Buffer, questionEnd: number, type: number): DnsQuery | UnusableQuery {
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
  return new WireQuery(bytes, questionEnd, type, edns);
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
    if (length > MAX_LABEL_BYTES) return undefined;
    for (const stop = at + length; at < stop; at++) {
      const byte = bytes[at] ?? 0;
      if (byte < FIRST_PRINTABLE || byte > LAST_PRINTABLE || byte === DOT) printable = false;
    }
  }
}
