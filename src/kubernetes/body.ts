/**
 * Reads what an API server sends: whole bodies, and the frames of a watch, compressed or not. Their size is limited
 * after decompression.
 */
import { type ClientHttp2Stream, constants } from 'node:http2';
import { finished, type Readable, Writable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { CtlError } from '../core/errors.ts';
import { ConnectionError } from './api-error.ts';
import type { ApiResponse } from './connection.ts';

/**
 * The whole body. Rejects with ConnectionError where it ends early, so that a part of a list is never taken for all of
 * it, and with CtlError `resource_exhausted` where it is longer than `maxBytes`.
 */
export function readBody(response: ApiResponse, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  return new Promise((resolve, reject) => {
    const take = (chunk: Buffer): void => {
      if (size > maxBytes) return;
      size += chunk.length;
      chunks.push(chunk);
      if (size <= maxBytes) return;
      reject(new CtlError('resource_exhausted', `expected a response of at most ${maxBytes} bytes`));
      response.stream.close(constants.NGHTTP2_CANCEL);
    };
    receive(response, take, (error) => (error === undefined ? resolve(Buffer.concat(chunks, size)) : reject(error)));
  });
}

/** Number of bytes that are decompressed at once. */
const GUNZIP_CHUNK = 64 * 1024;

/** The maximum number of compressed bytes that wait while others are decompressed. */
const GATHERED_BYTES = 64 * 1024;

/**
 * Calls `take` for each part of the body, and `ended` once, without an error if the whole body was received. Returns
 * the stream of the parts, which can be paused; it ends when the response's own stream is destroyed.
 */
export function receive(
  response: ApiResponse,
  take: (chunk: Buffer) => void,
  ended: (error: ConnectionError | undefined) => void,
): Readable {
  const { stream } = response;
  if (response.headers['content-encoding'] !== 'gzip') {
    stream.on('data', take);
    onStreamEnd(response, ended);
    return stream;
  }
  // The body of a watch has several gzip members in sequence (RFC 1952, 2.2).
  const content = createGunzip({ chunkSize: GUNZIP_CHUNK });
  content.on('data', take);
  finished(content, (error) => {
    if (error === undefined || error === null) return ended(undefined);
    stream.destroy();
    onStreamEnd(response, (broken) => ended(broken ?? new ConnectionError(`invalid gzip: ${error.message}`, false)));
  });
  onStreamEnd(response, (error) => {
    if (error !== undefined) content.destroy(error);
  });
  stream.pipe(gathered(content));
  return content;
}

/**
 * Writes the chunks that arrive while one is decompressed together. An API server flushes each object of a streaming
 * list by itself: each write would be a task of the thread pool for some hundred bytes.
 */
function gathered(content: Writable): Writable {
  return new Writable({
    highWaterMark: GATHERED_BYTES,
    write: (chunk: Buffer, _, done) => void content.write(chunk, done),
    writev: (parts, done) => void content.write(Buffer.concat(parts.map(({ chunk }) => chunk as Buffer)), done),
    final: (done) => void content.end(done),
    // `finished` of the content reports its errors.
  }).on('error', () => {});
}

/** Calls `ended` once, without an error if the server ended the stream normally. */
function onStreamEnd(response: ApiResponse, ended: (error: ConnectionError | undefined) => void): void {
  const { stream } = response;
  if (stream.closed && stream.destroyed) ended(endOf(response));
  else stream.once('close', () => ended(endOf(response)));
}

function endOf(response: ApiResponse): ConnectionError | undefined {
  const { stream } = response;
  if (isComplete(stream)) return undefined;
  const lost = response.isLost();
  return new ConnectionError(
    lost ? 'the connection was lost' : `the server ended the stream (HTTP/2 error code ${stream.rstCode ?? 0})`,
    lost,
  );
}

/** Whether the stream ended with END_STREAM and not with RST_STREAM (RFC 9113, 8.1). */
function isComplete(stream: ClientHttp2Stream): boolean {
  return !stream.aborted && stream.readableEnded && stream.rstCode === constants.NGHTTP2_NO_ERROR;
}

/**
 * Largest event of a watch, bytes: etcd takes objects of 1.5 MiB, which JSON and managed fields make several times
 * larger.
 */
const MAX_FRAME = 16 * 1024 * 1024;
/**
 * Bytes before a frame of a protobuf watch: its length, big-endian (Kubernetes "Alternate representations of
 * resources").
 */
const LENGTH_BYTES = 4;
const NEWLINE = 0x0a;

/** Cuts the body of a watch into frames: lines of JSON, or protobuf messages with their length before them. */
export class FrameSplitter {
  readonly #delimited: 'lines' | 'lengths';
  #rest: Buffer[] = [];
  #restBytes = 0;
  /** The number of buffered bytes at which the next frame is searched for again. */
  #needed = 0;

  constructor(delimited: 'lines' | 'lengths') {
    this.#delimited = delimited;
  }

  /** Bytes of a frame whose end has not arrived. */
  get pending(): number {
    return this.#restBytes;
  }

  /** Complete frames, in order. Throws CtlError for a frame that is too large. */
  push(chunk: Buffer): Buffer[] {
    this.#rest.push(chunk);
    this.#restBytes += chunk.length;
    const complete =
      this.#delimited === 'lines' ? chunk.includes(NEWLINE) : this.#restBytes >= Math.max(this.#needed, LENGTH_BYTES);
    if (!complete) {
      if (this.#restBytes > MAX_FRAME) throw tooLarge();
      return [];
    }
    const bytes = this.#rest.length === 1 ? chunk : Buffer.concat(this.#rest, this.#restBytes);
    const frames: Buffer[] = [];
    const end = this.#delimited === 'lines' ? cutLines(bytes, frames) : this.#cutLengths(bytes, frames);
    this.#rest = end === bytes.length ? [] : [bytes.subarray(end)];
    this.#restBytes = bytes.length - end;
    return frames;
  }

  #cutLengths(bytes: Buffer, frames: Buffer[]): number {
    let at = 0;
    this.#needed = LENGTH_BYTES;
    while (bytes.length - at >= LENGTH_BYTES) {
      const length = bytes.readUInt32BE(at);
      if (length > MAX_FRAME) throw tooLarge();
      const end = at + LENGTH_BYTES + length;
      if (end > bytes.length) {
        this.#needed = LENGTH_BYTES + length;
        break;
      }
      frames.push(bytes.subarray(at + LENGTH_BYTES, end));
      at = end;
    }
    return at;
  }
}

function cutLines(bytes: Buffer, frames: Buffer[]): number {
  let at = 0;
  for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, at)) {
    if (end > at) frames.push(bytes.subarray(at, end));
    at = end + 1;
  }
  return at;
}

function tooLarge(): CtlError {
  return new CtlError('resource_exhausted', `expected events of at most ${MAX_FRAME} bytes`);
}

export function contentTypeOf({ headers }: ApiResponse): string {
  return headers['content-type'] ?? '';
}
