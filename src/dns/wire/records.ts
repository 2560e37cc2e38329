/**
 * Writes the records of names of the mesh. Every request of a workload may wait for these responses, so they are not
 * written with `dns-packet`: it takes ten times as long for a few addresses, and repeats the name in each record, so
 * that a UDP message has space for an eighth of the addresses.
 */
import { CLASS_IN, HEADER_BYTES, TYPE } from './constants.ts';

/**
 * How long clients may keep addresses, seconds, as in Istio's agents. A changed service is seen soon, and a busy client
 * asks rarely.
 */
export const TTL_SECONDS = 30;

const POINTER = 0xc000;
/** Name (a pointer), type, class, TTL, length of the data. */
const RECORD_HEAD = 12;

/** A valid host name in wire format. */
export function nameBytes(name: string): Buffer {
  const bytes = Buffer.allocUnsafe(name.length + 2);
  bytes.write(name, 1, 'latin1');
  bytes[bytes.length - 1] = 0;
  for (let start = 0; start < bytes.length - 1; ) {
    const dot = name.indexOf('.', start);
    const end = dot < 0 ? name.length : dot;
    bytes[start] = end - start;
    start = end + 1;
  }
  return bytes;
}

function writeHead(buffer: Buffer, at: number, owner: number, type: number, length: number): number {
  buffer.writeUInt16BE(POINTER | owner, at);
  buffer.writeUInt16BE(type, at + 2);
  buffer.writeUInt16BE(CLASS_IN, at + 4);
  buffer.writeUInt32BE(TTL_SECONDS, at + 6);
  buffer.writeUInt16BE(length, at + 10);
  return at + RECORD_HEAD;
}

/** A CNAME record of the question's name. */
export const cnameRecord = {
  size: (target: Buffer): number => RECORD_HEAD + target.length,
  /** Returns where the record ends; its last bytes are the target. */
  write(buffer: Buffer, start: number, target: Buffer): number {
    const at = writeHead(buffer, start, HEADER_BYTES, TYPE.CNAME, target.length);
    target.copy(buffer, at);
    return at + target.length;
  },
};

export interface AddressRecords {
  readonly count: number;
  readonly bytes: number;
  /** @param owner the offset in the message of the name to which the addresses belong */
  write(buffer: Buffer, at: number, owner: number): number;
}

/**
 * Records of addresses, as many as fit.
 *
 * @param addresses `size` bytes each
 * @param space bytes that the records may take
 * @param turn which address comes first: 0 ≤ x < 1
 */
export function addressRecords(
  type: number,
  addresses: Uint8Array | undefined,
  size: 4 | 16,
  space: number,
  turn: number,
): AddressRecords {
  const all = (addresses?.length ?? 0) / size;
  const count = Math.min(all, Math.floor(space / (RECORD_HEAD + size)));
  const first = Math.floor(turn * all);
  return {
    count,
    bytes: count * (RECORD_HEAD + size),
    write(buffer, start, owner) {
      let at = start;
      for (let written = 0; written < count; written++) {
        const from = ((first + written) % all) * size;
        at = writeHead(buffer, at, owner, type, size);
        for (let byte = 0; byte < size; byte++) buffer[at + byte] = addresses?.[from + byte] ?? 0;
        at += size;
      }
      return at;
    },
  };
}
