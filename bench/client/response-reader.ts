/**
 * From pieces of a gRPC stream to discovery responses: reads the head and leaves the resources to the cache of known
 * bodies.
 */
import { VarintDecoder } from '../../src/protobuf/wire/index.ts';
import { type Body, type BodyIndex, BodyMatch } from './bodies.ts';
import type { ProxyType } from './messages.ts';

export const TYPE_URL: Readonly<Record<ProxyType, string>> = {
  cds: 'type.googleapis.com/envoy.config.cluster.v3.Cluster',
  eds: 'type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment',
  lds: 'type.googleapis.com/envoy.config.listener.v3.Listener',
  rds: 'type.googleapis.com/envoy.config.route.v3.RouteConfiguration',
  vhds: 'type.googleapis.com/envoy.config.route.v3.VirtualHost',
};
export const PROXY_TYPES = ['cds', 'eds', 'lds', 'rds', 'vhds'] as const satisfies readonly ProxyType[];

const TYPE_OF = new Map<string, ProxyType>(PROXY_TYPES.map((type) => [TYPE_URL[type], type]));

/** Fields of a response before its resources. */
export interface ResponseHead {
  readonly type: ProxyType;
  readonly version: string;
  readonly nonce: string;
  /** Delta only. */
  readonly removed: readonly string[];
}

const PREFIX_BYTES = 5;
/** Field 2 of both responses, length-delimited: a resource. */
const RESOURCES_TAG = 0x12;

const decoder = new VarintDecoder();

/** Reads the fields up to the first resource; undefined when more bytes are needed. */
function readHead(bytes: Buffer, length: number): { head: ResponseHead; consumed: number } | undefined {
  const removed: string[] = [];
  let [version, url, nonce] = ['', '', ''];
  let at = 0;
  const varint = (): number => {
    const after = decoder.read(bytes, at, bytes.length);
    if (after < 0) return Number.NaN;
    at = after;
    return decoder.value;
  };
  while (at < length) {
    if (at >= bytes.length) return undefined;
    const start = at;
    const tag = varint();
    if (tag === RESOURCES_TAG) {
      at = start;
      break;
    }
    const size = varint();
    if (Number.isNaN(size)) return undefined;
    if (tag % 8 === 0) continue;
    if (tag % 8 !== 2) throw new Error(`wire type ${tag % 8} in a response`);
    if (at + size > bytes.length) return undefined;
    const text = bytes.toString('utf8', at, at + size);
    at += size;
    if (tag >> 3 === 1) version = text;
    else if (tag >> 3 === 4) url = text;
    else if (tag >> 3 === 5) nonce = text;
    else if (tag >> 3 === 6) removed.push(text);
  }
  const type = TYPE_OF.get(url);
  if (type === undefined) throw new Error(`a response of type "${url}": its resources may stand before its head`);
  return { head: { type, version, nonce, removed }, consumed: at };
}

export class ResponseReader {
  readonly #bodies: BodyIndex;
  readonly #deliver: (head: ResponseHead, body: Body, bytes: number) => void;
  /** Prefix or head that is not complete yet. */
  #pending: Buffer | undefined;
  /** The pieces of a compressed message, which are joined once. */
  #collected: Buffer[] = [];
  #collectedBytes = 0;
  /** Length of the current message; undefined while its prefix is awaited. */
  #length: number | undefined;
  #isCompressed = false;
  #head: ResponseHead | undefined;
  #match: BodyMatch | undefined;

  constructor(bodies: BodyIndex, deliver: (head: ResponseHead, body: Body, bytes: number) => void) {
    this.#bodies = bodies;
    this.#deliver = deliver;
  }

  piece(piece: Buffer): void {
    let rest = piece;
    while (rest.length > 0) {
      if (this.#match !== undefined) {
        const part = rest.subarray(0, this.#match.missing);
        rest = rest.subarray(part.length);
        const body = this.#match.piece(part);
        if (body !== undefined) this.#done(body);
        continue;
      }
      if (this.#isCompressed && this.#length !== undefined) {
        rest = this.#collect(rest, this.#length);
        continue;
      }
      if (this.#pending !== undefined) rest = Buffer.concat([this.#pending, rest]);
      this.#pending = undefined;
      const used = this.#length === undefined ? this.#prefix(rest) : this.#begin(rest, this.#length);
      if (used === undefined) {
        this.#pending = Buffer.from(rest);
        return;
      }
      rest = rest.subarray(used);
    }
  }

  #prefix(bytes: Buffer): number | undefined {
    if (bytes.length < PREFIX_BYTES) return undefined;
    this.#isCompressed = bytes[0] === 1;
    this.#length = bytes.readUInt32BE(1);
    if (this.#length === 0) throw new Error('an empty response');
    return PREFIX_BYTES;
  }

  #begin(bytes: Buffer, length: number): number | undefined {
    const read = readHead(bytes.subarray(0, length), length);
    if (read === undefined) return undefined;
    this.#head = read.head;
    const expected = this.#bodies.expect(read.head.type, length - read.consumed);
    if (expected instanceof BodyMatch) this.#match = expected;
    else this.#done(expected);
    return read.consumed;
  }

  /** Takes a piece of a compressed message; returns what follows the message. */
  #collect(piece: Buffer, length: number): Buffer {
    const part = piece.subarray(0, length - this.#collectedBytes);
    this.#collected.push(Buffer.from(part));
    this.#collectedBytes += part.length;
    if (this.#collectedBytes === length) {
      const message = Buffer.concat(this.#collected);
      this.#collected = [];
      this.#collectedBytes = 0;
      this.#decompress(message);
    }
    return piece.subarray(part.length);
  }

  #decompress(message: Buffer): void {
    const { compressed } = this.#bodies;
    const typeOf = (head: Buffer): ResponseHead => {
      const read = readHead(head, head.length);
      if (read === undefined) throw new Error('a head that is not complete');
      return read.head;
    };
    const { head, body } = compressed.read(message, (of, content) => this.#bodies.take(typeOf(of).type, content));
    this.#head = typeOf(head);
    this.#done(body);
  }

  #done(body: Body): void {
    const head = this.#head;
    const length = this.#length ?? 0;
    this.#head = undefined;
    this.#match = undefined;
    this.#length = undefined;
    if (head !== undefined) this.#deliver(head, body, length + PREFIX_BYTES);
  }
}
