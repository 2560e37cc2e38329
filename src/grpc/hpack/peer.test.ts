/**
 * The decoder against the encoder of Node's HTTP/2 client (nghttp2), which uses the dynamic table and the Huffman code.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type OutgoingHttpHeaders } from 'node:http2';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { HpackDecoder } from './decoder.ts';

const PREFACE_BYTES = 24;
const FRAME_HEAD_BYTES = 9;
const HEADERS = 1;
const SETTINGS = 4;
const CONTINUATION = 9;
const PRIORITY = 0x20;
const END_HEADERS = 4;

/** Header blocks received over a socket, in order. */
class BlockCollector {
  readonly blocks: Buffer[] = [];
  #pending: Buffer = Buffer.alloc(0);
  #parts: Buffer[] = [];
  #begun = false;

  push(bytes: Buffer): void {
    this.#pending = Buffer.concat([this.#pending, bytes]);
    if (!this.#begun) {
      if (this.#pending.length < PREFACE_BYTES) return;
      this.#pending = this.#pending.subarray(PREFACE_BYTES);
      this.#begun = true;
    }
    while (this.#pending.length >= FRAME_HEAD_BYTES) {
      const end = FRAME_HEAD_BYTES + this.#pending.readUIntBE(0, 3);
      if (this.#pending.length < end) return;
      this.#frame(this.#pending[3] ?? 0, this.#pending[4] ?? 0, this.#pending.subarray(FRAME_HEAD_BYTES, end));
      this.#pending = this.#pending.subarray(end);
    }
  }

  #frame(type: number, flags: number, payload: Buffer): void {
    if (type !== HEADERS && type !== CONTINUATION) return;
    this.#parts.push(type === HEADERS && (flags & PRIORITY) !== 0 ? payload.subarray(5) : payload);
    if ((flags & END_HEADERS) === 0) return;
    this.blocks.push(Buffer.concat(this.#parts));
    this.#parts = [];
  }
}

/**
 * Blocks that a client sends for these requests to a server that never answers, after `settings`.
 */
async function blocksOf(requests: readonly OutgoingHttpHeaders[], settings: Buffer): Promise<Buffer[]> {
  const collector = new BlockCollector();
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.write(settings);
    socket.on('data', (bytes) => {
      collector.push(bytes);
      if (collector.blocks.length === requests.length) server.emit('complete');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  session.on('error', () => {});
  const complete = once(server, 'complete');
  await once(session, 'remoteSettings');
  for (const headers of requests) session.request(headers).on('error', () => {});
  await complete;
  session.destroy();
  for (const socket of sockets) socket.destroy();
  server.close();
  return collector.blocks;
}

function settingsFrame(...entries: readonly (readonly [number, number])[]): Buffer {
  const frame = Buffer.alloc(FRAME_HEAD_BYTES + entries.length * 6);
  frame.writeUIntBE(entries.length * 6, 0, 3);
  frame[3] = SETTINGS;
  for (const [index, [id, value]] of entries.entries()) {
    frame.writeUInt16BE(id, FRAME_HEAD_BYTES + index * 6);
    frame.writeUInt32BE(value, FRAME_HEAD_BYTES + index * 6 + 2);
  }
  return frame;
}

/**
 * Requests that repeat and change names and values, more than the table can hold, with every character that a value may
 * have.
 */
const REQUESTS: OutgoingHttpHeaders[] = Array.from({ length: 150 }, (_, index) => ({
  ':method': 'POST',
  ':path': `/service.${index % 7}/Method`,
  'content-type': 'application/grpc',
  te: 'trailers',
  'grpc-timeout': `${index}S`,
  'user-agent': 'grpc-node/1.0',
  [`x-name-${index % 40}`]: `value ${index} ${'~'.repeat(index * 3)}`,
  'x-bytes-bin': Buffer.alloc(index, index).toString('base64'),
  'x-every': index === 3 ? String.fromCharCode(...Array.from({ length: 94 }, (_v, code) => 33 + code)) : 'few',
  'x-large': 'large'.repeat(index === 20 ? 3000 : 1),
}));

function decodesAll(blocks: readonly Buffer[], maxTableBytes: number): void {
  const decoder = new HpackDecoder({ maxTableBytes, maxListBytes: 65_536 });
  for (const [index, block] of blocks.entries()) {
    const fields = Object.fromEntries(decoder.decode(block).map(({ name, value }) => [name, value]));
    const { ':authority': authority, ':scheme': scheme, ...sent } = fields;
    assert.equal(scheme, 'http');
    assert.match(authority ?? '', /^127\.0\.0\.1:/);
    assert.deepEqual(sent, REQUESTS[index]);
  }
}

const HEADER_TABLE_SIZE = 1;
for (const [what, maxTableBytes, settings] of [
  ['the table of 4096 bytes', 4096, settingsFrame()],
  ['a smaller table', 200, settingsFrame([HEADER_TABLE_SIZE, 200])],
  ['no table', 0, settingsFrame([HEADER_TABLE_SIZE, 0])],
  ['a table that shrank and grew', 4096, settingsFrame([HEADER_TABLE_SIZE, 0], [HEADER_TABLE_SIZE, 4096])],
] as const)
  test(`blocks of Node's client are decoded: ${what}`, async () => {
    const blocks = await blocksOf(REQUESTS, settings);
    assert.equal(blocks.length, REQUESTS.length);
    decodesAll(blocks, maxTableBytes);
  });
