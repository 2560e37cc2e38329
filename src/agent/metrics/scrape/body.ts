/** The body of an answer with metrics, as complete lines of valid UTF-8, in bounded memory. */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { pipeline, type Readable, Transform, type TransformOptions } from 'node:stream';
import { CtlError } from '../../../core/errors.ts';

/** Limits a part that does not end, which would block a scrape forever. */
const MAX_PART_BYTES = 256 * 1024 * 1024;
const MAX_DECOMPRESSED_BYTES = 32 * 1024 * 1024;
/** Maximum length of a line, bytes. */
const MAX_LINE_BYTES = 1024 * 1024;
const LINE_END = 0x0a;

/** Blocks of complete lines; the last one may have no end. Rejects with CtlError beyond a limit. */
export async function* readLines(body: Readable): AsyncGenerator<Buffer> {
  let rest: Buffer[] = [];
  let [size, held] = [0, 0];
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_PART_BYTES) throw new CtlError('resource_exhausted', `more than ${MAX_PART_BYTES} bytes`);
    const end = chunk.lastIndexOf(LINE_END) + 1;
    if (end > 0) {
      yield Buffer.concat([...rest, chunk.subarray(0, end)]);
      [rest, held] = [[], 0];
    }
    if (end === chunk.length) continue;
    rest.push(chunk.subarray(end));
    held += chunk.length - end;
    if (held > MAX_LINE_BYTES) throw new CtlError('resource_exhausted', `a line of more than ${MAX_LINE_BYTES} bytes`);
  }
  if (held > 0) yield Buffer.concat(rest);
}

/** The text of a block; each line that is not UTF-8 is replaced by a line that is not a metric. */
export function textOf(block: Buffer): string {
  if (isUtf8(block)) return block.toString('utf8');
  return block
    .toString('latin1')
    .split('\n')
    .map((line) => Buffer.from(line, 'latin1'))
    .map((line) => (isUtf8(line) ? line.toString('utf8') : '\0 not UTF-8'))
    .join('\n');
}

/** The body without its content coding (RFC 9110, section 8.4). Rejects with CtlError for one that is not supported. */
export function decoded(incoming: IncomingMessage): Readable {
  const coding = (incoming.headers['content-encoding'] ?? 'identity').toLowerCase();
  if (coding === 'identity' || coding === '') return incoming;
  if (coding !== 'gzip' && coding !== 'x-gzip') {
    incoming.destroy();
    throw new CtlError('unimplemented', `returned the content coding ${JSON.stringify(coding.slice(0, 40))}`);
  }
  // Loaded only when needed, because applications are asked not to compress.
  const { createGunzip } = process.getBuiltinModule('node:zlib');
  const limited = new Transform({ transform: limit(MAX_DECOMPRESSED_BYTES) });
  // An error in one stream ends the others with the same error.
  return pipeline(incoming, createGunzip(), limited, () => undefined);
}

/** A small answer may decompress to a thousand times its size. */
function limit(maxBytes: number): TransformOptions['transform'] {
  let size = 0;
  return (chunk: Buffer, _encoding, done) => {
    size += chunk.length;
    if (size <= maxBytes) done(null, chunk);
    else done(new CtlError('resource_exhausted', `more than ${maxBytes} bytes when decompressed`));
  };
}
