/**
 * Messages compressed by gzip whose parts were compressed once, and are shared by many messages. The parts do not refer
 * to each other, and each ends at a byte, so that the DEFLATE data of a message is the concatenation of that of its
 * parts. A part that differs from message to message is stored as it is, in blocks that cost five bytes. The result is
 * one gzip member: some implementations of gRPC read no further than the first.
 * Source: RFC 1951 sections 3.2.3 and 3.2.4 (blocks), RFC 1952 section 2.3 (members),
 * https://github.com/grpc/grpc/blob/master/doc/compression.md
 */
import { constants, crc32, createGzip } from 'node:zlib';
import { InternalError } from '../../core/errors.ts';
import { MESSAGE_PREFIX_BYTES } from '../messages.ts';
import { factorOf, joinedChecksum } from './checksum.ts';

/** A part of messages in compressed form. */
export interface Deflated {
  /** Blocks of DEFLATE that end at a byte; none is the last one of its data. */
  readonly blocks: Uint8Array;
  /** Length before compression. */
  readonly bytes: number;
  /** Of the bytes before compression. */
  readonly checksum: number;
  /** See {@link factorOf}. */
  readonly factor: number;
}

/** A part in compressed form, or as it is. */
export type MessagePart = Deflated | Uint8Array;

/** No file name, no time, an unknown operating system. */
const MEMBER_HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
/** An empty block with fixed codes that ends the data. */
const LAST_BLOCK = Buffer.from([0x03, 0x00]);
const TRAILER_BYTES = 8;

const STORED_HEADER_BYTES = 5;
/** The length of a stored block has 16 bits. */
const MAX_STORED_BYTES = 0xffff;

const COMPRESSED = 1;

/**
 * Repetition is what compresses in configuration. Level 6 saves another sixth of the bytes for three times the CPU time
 * of this thread pool.
 */
const LEVEL = 1;

/**
 * Output of zlib between two returns to the main thread, bytes: while the main thread is busy each return takes as long
 * as a turn of its event loop.
 */
const MAX_CHUNK_BYTES = 1024 * 1024;
const MIN_CHUNK_BYTES = 1024;

/**
 * Compresses a part, outside the main thread. Rejects when it is larger than zlib can compress.
 *
 * zlib makes a whole member, for its checksum: computing that of 5 MB takes the main thread 2 ms. All data is flushed
 * before the member ends, so that its end is of known length and not part of the blocks.
 */
export async function deflatePart(part: Uint8Array): Promise<Deflated> {
  const chunkSize = Math.min(Math.max(part.length, MIN_CHUNK_BYTES), MAX_CHUNK_BYTES);
  const gzip = createGzip({ level: LEVEL, flush: constants.Z_SYNC_FLUSH, chunkSize });
  gzip.write(part);
  gzip.end();
  const chunks: Buffer[] = [];
  for await (const chunk of gzip) chunks.push(chunk);
  // A copy: the output of zlib is the beginning of a larger buffer.
  const member = Buffer.concat(chunks);
  const end = member.length - LAST_BLOCK.length - TRAILER_BYTES;
  if (!member.subarray(end).subarray(0, LAST_BLOCK.length).equals(LAST_BLOCK))
    throw new InternalError('the compressed data does not end with an empty block');
  return {
    blocks: member.subarray(MEMBER_HEADER.length, end),
    bytes: part.length,
    checksum: member.readUInt32LE(end + LAST_BLOCK.length),
    factor: factorOf(part.length),
  };
}

/** Whether the part is in compressed form. */
function isDeflated(part: MessagePart): part is Deflated {
  return 'blocks' in part;
}

/** The length-prefixed message as chunks; compressed parts are not copied. */
export function gzipMessage(parts: readonly MessagePart[]): readonly Uint8Array[] {
  let checksum = 0;
  let bytes = 0;
  let length = MEMBER_HEADER.length + LAST_BLOCK.length + TRAILER_BYTES;
  for (const part of parts) {
    if (isDeflated(part)) {
      checksum = joinedChecksum(checksum, part.checksum, part.factor);
      bytes += part.bytes;
      length += part.blocks.length;
    } else {
      checksum = crc32(part, checksum);
      bytes += part.length;
      length += part.length + STORED_HEADER_BYTES * Math.ceil(part.length / MAX_STORED_BYTES);
    }
  }
  const chunks: Uint8Array[] = [];
  // What stands between compressed parts is short: a copy costs less than a write of its own.
  let between: Uint8Array[] = [start(length)];
  for (const part of parts) {
    if (!isDeflated(part)) between.push(...storedBlocks(part));
    else {
      chunks.push(Buffer.concat(between), part.blocks);
      between = [];
    }
  }
  chunks.push(Buffer.concat([...between, trailer(checksum, bytes)]));
  return chunks;
}

/** The prefix of the message, and the header of the member. */
function start(length: number): Buffer {
  const bytes = Buffer.allocUnsafe(MESSAGE_PREFIX_BYTES + MEMBER_HEADER.length);
  bytes.writeUInt8(COMPRESSED, 0);
  bytes.writeUInt32BE(length, 1);
  bytes.set(MEMBER_HEADER, MESSAGE_PREFIX_BYTES);
  return bytes;
}

/** The part in blocks without compression, none of which is the last one. */
function storedBlocks(part: Uint8Array): readonly Uint8Array[] {
  const chunks: Uint8Array[] = [];
  for (let at = 0; at < part.length; at += MAX_STORED_BYTES) {
    const stored = part.subarray(at, at + MAX_STORED_BYTES);
    const header = Buffer.alloc(STORED_HEADER_BYTES);
    header.writeUInt16LE(stored.length, 1);
    header.writeUInt16LE(~stored.length & MAX_STORED_BYTES, 3);
    chunks.push(header, stored);
  }
  return chunks;
}

function trailer(checksum: number, bytes: number): Buffer {
  const end = Buffer.allocUnsafe(LAST_BLOCK.length + TRAILER_BYTES);
  end.set(LAST_BLOCK);
  end.writeUInt32LE(checksum, LAST_BLOCK.length);
  // Messages have a length of 32 bits.
  end.writeUInt32LE(bytes, LAST_BLOCK.length + 4);
  return end;
}
