/** Builds responses, and changes those of others: OPT record, truncation. */
import type { DnsQuery } from '../types.ts';
import { FLAG, HEADER_BYTES, RCODE, TYPE } from './constants.ts';
import { parseLayout } from './layout.ts';

/** Flags of a query that its response repeats (RFC 1035 section 4.1.1, RFC 4035 section 3.2.2). */
const REPEATED = FLAG.RD | FLAG.CD;
const OPT_BYTES = 11;

/**
 * The header and the question of a response, without records, in a buffer with space for them. The question is a copy
 * of the query's bytes, with the case of its letters: clients may use that as a part of their query's id (DNS 0x20).
 *
 * @param spaceFor bytes after the question
 */
export function startReply(query: DnsQuery, flags: number, rcode: number, spaceFor = 0): Buffer {
  const reply = Buffer.allocUnsafe(query.questionEnd + spaceFor);
  query.bytes.copy(reply, 0, 0, query.questionEnd);
  const word = FLAG.QR | FLAG.RA | flags | (query.bytes.readUInt16BE(2) & REPEATED) | rcode;
  reply.writeUInt16BE(word, 2);
  reply.writeUInt32BE(0, 6);
  reply.writeUInt16BE(0, 10);
  return reply;
}

/**
 * The response to a message of which only a part may be readable (at least 12 bytes).
 *
 * @param questionEnd where its question ends; undefined: the response has no question
 */
export function errorReply(bytes: Buffer, rcode: number, questionEnd: number | undefined): Buffer {
  const reply = Buffer.alloc(questionEnd ?? HEADER_BYTES);
  bytes.copy(reply, 0, 0, reply.length);
  // The response repeats the operation code and RD of the query.
  reply.writeUInt16BE(FLAG.QR | (bytes.readUInt16BE(2) & 0x7900) | (rcode & 0xf), 2);
  reply.writeUInt16BE(questionEnd === undefined ? 0 : 1, 4);
  reply.writeUInt32BE(0, 6);
  reply.writeUInt16BE(0, 10);
  return reply;
}

/**
 * Adds an OPT record without options, the last record of a message.
 *
 * @param payload the largest UDP message that the sender of this message accepts, bytes
 */
export function withOpt(message: Buffer, payload: number, rcode: number, dnssecOk: boolean): Buffer {
  const result = Buffer.allocUnsafe(message.length + OPT_BYTES);
  message.copy(result);
  let at = message.length;
  at = result.writeUInt8(0, at);
  at = result.writeUInt16BE(TYPE.OPT, at);
  at = result.writeUInt16BE(payload, at);
  at = result.writeUInt8(rcode >> 4, at);
  at = result.writeUInt8(0, at);
  at = result.writeUInt16BE(dnssecOk ? 0x8000 : 0, at);
  result.writeUInt16BE(0, at);
  result.writeUInt16BE(result.readUInt16BE(10) + 1, 10);
  return result;
}

/**
 * A response of at most `limit` bytes: records are removed from the end. TC tells the client to ask again over TCP; it
 * is not set when only additional records are missing (RFC 2181 section 9).
 */
export function truncated(message: Buffer, limit: number): Buffer {
  if (message.length <= limit) return message;
  const layout = parseLayout(message);
  if (layout === undefined) return message.subarray(0, HEADER_BYTES);
  const counts = { answer: 0, authority: 0, additional: 0 };
  let [end, cut] = [layout.questionEnd, false];
  for (const record of layout.records) {
    if (record.end > limit) {
      cut = record.section !== 'additional';
      break;
    }
    counts[record.section]++;
    end = record.end;
  }
  const result = Buffer.from(message.subarray(0, end));
  if (cut) result.writeUInt16BE(result.readUInt16BE(2) | FLAG.TC, 2);
  result.writeUInt16BE(counts.answer, 6);
  result.writeUInt16BE(counts.authority, 8);
  result.writeUInt16BE(counts.additional, 10);
  return result;
}

/** The response as the server sends it: with an OPT record if the query had one, and not longer than `limit`. */
export function finished(query: DnsQuery, response: Buffer, limit: number, payload: number): Buffer {
  if (query.edns === undefined) return truncated(response, limit);
  const short = truncated(response, limit - OPT_BYTES);
  return withOpt(short, payload, RCODE.NOERROR, query.edns.dnssecOk);
}

export function readRcode(message: Buffer): number {
  return message.readUInt16BE(2) & 0xf;
}

export function isTruncated(message: Buffer): boolean {
  return (message.readUInt16BE(2) & FLAG.TC) !== 0;
}
