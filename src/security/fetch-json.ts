/**
 * Fetching a small JSON document on which trust rests: over TLS, from where the operator said and nowhere else, within limits of size
 * and time.
 */
import { CtlError } from '../core/errors.ts';

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Whole exchange. */
const TIMEOUT_MS = 10_000;

/** Key sets and bundles have some kilobytes. */
const MAX_BYTES = 512 * 1024;

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

/** A URL that keys may be fetched from: https, or http of the own machine. Throws CtlError invalid_argument. */
export function trustedUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined) throw new CtlError('invalid_argument', `${JSON.stringify(text.slice(0, 200))} is not a URL`);
  const plain = url.protocol === 'http:' && LOOPBACK.has(url.hostname);
  if (url.protocol !== 'https:' && !plain) {
    throw new CtlError('invalid_argument', `${text.slice(0, 200)} must be an https URL: keys rest on it`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new CtlError('invalid_argument', `the URL of ${url.host} may not hold a password`);
  }
  return url;
}

async function boundedText(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > MAX_BYTES) throw new CtlError('unavailable', `answers more than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** What a failed fetch is about: its message is only `fetch failed`. */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return `no answer within ${TIMEOUT_MS / 1000} s`;
  return error.cause instanceof Error ? error.cause.message : error.message;
}

/** The parsed document. Rejects with CtlError unavailable naming the URL. */
export async function fetchJson(url: URL, fetch: Fetch, signal: AbortSignal): Promise<unknown> {
  try {
    const response = await fetch(url.href, {
      redirect: 'manual',
      headers: { accept: 'application/json' },
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    });
    if (response.status !== 200) {
      await response.body?.cancel();
      const redirect = response.status >= 300 && response.status < 400 ? ', redirects are not followed' : '';
      throw new CtlError('unavailable', `answers ${response.status}${redirect}`);
    }
    const text = await boundedText(response);
    try {
      return JSON.parse(text);
    } catch {
      throw new CtlError('unavailable', 'does not answer JSON');
    }
  } catch (error) {
    const reason = error instanceof CtlError ? error.message : causeOf(error);
    throw new CtlError('unavailable', `${url.href}: ${reason}`, {}, error);
  }
}
