/** Queries to upstream resolvers, and the check of their responses. */
import type { DnsQuery } from '../types.ts';
import { FLAG, HEADER_BYTES, RCODE, SAFE_UDP_BYTES, TYPE } from '../wire/constants.ts';
import { type MessageLayout, parseLayout } from '../wire/layout.ts';
import { readRcode, withOpt } from '../wire/reply.ts';

/** A question, without an id: each exchange has its own. */
export interface Request {
  /** Name, type and class as the client sent them. */
  readonly question: Buffer;
  /** RD, AD and CD of the client's query. */
  readonly flags: number;
  /** Set if the client sent an OPT record: the query to the server then has one as well. */
  readonly edns: { readonly dnssecOk: boolean } | undefined;
}

const FORWARDED = FLAG.RD | FLAG.AD | FLAG.CD;

export function toRequest({ bytes, questionEnd, edns }: DnsQuery): Request {
  return {
    question: bytes.subarray(HEADER_BYTES, questionEnd),
    flags: bytes.readUInt16BE(2) & FORWARDED,
    edns: edns === undefined ? undefined : { dnssecOk: edns.dnssecOk },
  };
}

/** Equal for requests with the same responses: names are compared without case (RFC 4343). */
export function requestKey({ question, flags, edns }: Request): string {
  const name = question
    .toString('latin1', 0, question.length - 4)
    .replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
  const suffix = question.toString('latin1', question.length - 4);
  return `${flags}${edns?.dnssecOk === true ? '+' : '-'}${suffix}${name}`;
}

export function encodeRequest({ question, flags, edns }: Request, id: number): Buffer {
  const message = Buffer.alloc(HEADER_BYTES + question.length);
  message.writeUInt16BE(id, 0);
  message.writeUInt16BE(flags, 2);
  message.writeUInt16BE(1, 4);
  question.copy(message, HEADER_BYTES);
  return edns === undefined ? message : withOpt(message, SAFE_UDP_BYTES, RCODE.NOERROR, edns.dnssecOk);
}

export interface UpstreamResponse {
  /** Without OPT record. */
  readonly message: Buffer;
  readonly layout: MessageLayout;
}

/** Undefined for a message that is not a response to this request: it is ignored (RFC 5452 section 9.1). */
export function readResponse(message: Buffer, request: Request, id: number): UpstreamResponse | undefined {
  if (message.length < HEADER_BYTES || message.readUInt16BE(0) !== id) return undefined;
  // QR is set and the operation is a query.
  if ((message.readUInt16BE(2) & 0xf800) !== FLAG.QR) return undefined;
  const layout = parseLayout(message);
  if (layout === undefined) return undefined;
  // A server that does not understand the query may not repeat the question.
  const rcode = readRcode(message);
  const unreadable = (rcode === RCODE.FORMERR || rcode === RCODE.NOTIMP) && message.readUInt16BE(4) === 0;
  if (!unreadable && !sameQuestion(message, layout.questionEnd, request.question)) return undefined;
  return withoutOpt(message, layout);
}

function sameQuestion(message: Buffer, questionEnd: number, question: Buffer): boolean {
  if (message.readUInt16BE(4) !== 1 || questionEnd !== HEADER_BYTES + question.length) return false;
  const nameEnd = question.length - 4;
  for (let at = 0; at < question.length; at++) {
    const [theirs = 0, ours = 0] = [message[HEADER_BYTES + at], question[at]];
    if (theirs !== ours && (at >= nameEnd || lower(theirs) !== lower(ours))) return false;
  }
  return true;
}

const lower = (byte: number) => (byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte);

/**
 * OPT belongs to one hop (RFC 6891 section 6.1.1). Records after it, which are all optional, are removed with it:
 * moving them would break pointers.
 */
function withoutOpt(message: Buffer, layout: MessageLayout): UpstreamResponse | undefined {
  const index = layout.records.findIndex(({ type }) => type === TYPE.OPT);
  const opt = layout.records[index];
  if (opt === undefined) return { message, layout };
  if (opt.section !== 'additional') return undefined;
  const records = layout.records.slice(0, index);
  const short = Buffer.from(message.subarray(0, opt.start));
  short.writeUInt16BE(records.filter(({ section }) => section === 'additional').length, 10);
  // The upper bits of an extended response code are in OPT: BADVERS and BADCOOKIE are errors of this hop.
  if (message.readUInt8(opt.ttlAt) !== 0) short.writeUInt16BE((short.readUInt16BE(2) & 0xfff0) | RCODE.FORMERR, 2);
  return { message: short, layout: { questionEnd: layout.questionEnd, records } };
}

/** The response to a client's query: a copy with the id, the question and the flags of that query. */
export function responseTo({ bytes, questionEnd }: DnsQuery, message: Buffer): Buffer {
  const response = Buffer.from(message);
  bytes.copy(response, 0, 0, 2);
  const repeated = FLAG.RD | FLAG.CD;
  const flags = (message.readUInt16BE(2) & ~repeated) | (bytes.readUInt16BE(2) & repeated);
  response.writeUInt16BE(flags & 0xffff, 2);
  if (message.readUInt16BE(4) === 1) bytes.copy(response, HEADER_BYTES, HEADER_BYTES, questionEnd);
  return response;
}
