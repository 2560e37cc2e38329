/** `POST /debug/diffz`: what a change of documents would do to the proxies that the caller may see. */
import type { IncomingMessage } from 'node:http';
import { CtlError } from '../core/errors.ts';
import { readUpTo } from '../core/network/body.ts';
import { networkOf, PerAddressLimiter } from '../grpc/index.ts';
import { MAX_REQUEST_BYTES, type PreviewAnswer } from '../preview/index.ts';
import type { DebugSource } from './types.ts';
import { Viewed, type Viewer } from './viewed.ts';

export const DIFF_PAGE = {
  name: 'diffz',
  title: 'What a change of documents would do, without doing it (POST; see `ctl-discovery diff`)',
} as const;

/** Bodies of all requests that are being received or compared, bytes. */
const bodies = new PerAddressLimiter(2 * MAX_REQUEST_BYTES);

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
  const size = Number(request.headers['content-length'] ?? MAX_REQUEST_BYTES);
  if (!(size >= 0 && size <= MAX_REQUEST_BYTES)) throw tooLarge();
  const release = bodies.enter(address, Math.max(1, size));
  if (release === undefined) throw new CtlError('unavailable', 'too many changes are being compared, try again later');
  try {
    const body = await readUpTo(size, request);
    if (body === undefined) throw tooLarge();
    const viewed = new Viewed(source, viewer);
    const seen = viewer === 'all' ? '' : viewer.namespace;
    const caller = {
      id: `${networkOf(address)} ${seen}`,
      sees: (namespace: string) => viewed.seesAll || viewed.sees(namespace),
    };
    return await previews.run(body, caller, gone);
  } finally {
    release();
  }
}

function tooLarge(): CtlError {
  return new CtlError('resource_exhausted', `expected a body of at most ${MAX_REQUEST_BYTES} bytes`);
}
