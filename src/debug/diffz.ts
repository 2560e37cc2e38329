/** `POST /debug/diffz`: what a change of documents would do to the proxies that the caller may see. */
import type { IncomingMessage } from 'node:http';
import { CtlError } from '../core/errors.ts';
import { FairLimiter } from '../core/fairness/fair-limiter.ts';
import { networkOf } from '../grpc/index.ts';
import { MAX_REQUEST_BYTES, type PreviewAnswer, type PreviewCaller } from '../preview/index.ts';
import type { DebugSource } from './types.ts';
import { Viewed, type Viewer } from './viewed.ts';

export const DIFF_PAGE = {
  name: 'diffz',
  title: 'What a change of documents would do, without doing it (POST; see `ctl-discovery diff`)',
} as const;

/**
 * Bodies that are being received or compared, bytes: of callers who see everything, and of the others, who cannot keep
 * them out. One caller has at most 4 of 5, which is a little more than a body.
 */
const bodies = { all: bodiesLimiter(), namespaces: bodiesLimiter() };

function bodiesLimiter(): FairLimiter {
  return new FairLimiter(1.5 * MAX_REQUEST_BYTES, 4);
}

/** Bytes are reserved in these steps, as they arrive: a slow sender holds what it has sent. */
const RESERVED_BYTES = 1024 * 1024;
/** Memory of a chunk besides its bytes. */
const CHUNK_BYTES = 256;

/** Rejects with CtlError; see `Previews.run`. */
export async function diffz(
  source: DebugSource,
  viewer: Viewer,
  request: IncomingMessage,
  gone: AbortSignal,
): Promise<PreviewAnswer> {
  const { previews } = source;
  if (previews === undefined) throw new CtlError('unavailable', 'configuration is being read');
  const address = request.socket.remoteAddress ?? '';
  const size = Number(request.headers['content-length'] ?? 0);
  if (!(size >= 0 && size <= MAX_REQUEST_BYTES)) throw tooLarge();
  const viewed = new Viewed(source, viewer);
  const caller: PreviewCaller = {
    // All Pods of a namespace are one caller.
    id: viewer === 'all' ? `address ${networkOf(address)}` : `namespace ${viewer.namespace}`,
    sees: (namespace) => viewed.seesAll || viewed.sees(namespace),
  };
  const reserved: (() => void)[] = [];
  try {
    const body = await receive(request, () => {
      const release = (viewer === 'all' ? bodies.all : bodies.namespaces).enter(caller.id, RESERVED_BYTES);
      if (release === undefined)
        throw new CtlError('unavailable', 'too many changes are being compared, try again later');
      reserved.push(release);
    }).catch((error: unknown) => {
      if (error instanceof CtlError) throw error;
      throw new CtlError('unavailable', 'the connection ended before the body', {}, error);
    });
    return await previews.run(body, caller, gone);
  } finally {
    for (const release of reserved) release();
  }
}

/** @param reserve takes the next bytes, or throws */
async function receive(request: IncomingMessage, reserve: () => void): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  let used = 0;
  let reserved = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    used += chunk.length + CHUNK_BYTES;
    if (size > MAX_REQUEST_BYTES) throw tooLarge();
    for (; reserved < used; reserved += RESERVED_BYTES) reserve();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size);
}

function tooLarge(): CtlError {
  return new CtlError('resource_exhausted', `expected a body of at most ${MAX_REQUEST_BYTES} bytes`);
}
