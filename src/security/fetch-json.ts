/**
 * Fetches a small JSON document that trust depends on, within limits of size and time, by default only from the URL
 * that the operator configured. Messages show a URL without password and query, which may hold a key.
 */
import { CtlError } from '../core/errors.ts';
import { readUpTo } from '../core/network/body.ts';
import { shownUrl } from '../core/network/http-call.ts';

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface FetchLimits {
  /** Limit for the whole exchange, redirects included. */
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** The maximum number of redirects. */
  readonly redirects: number;
}

/** Limits for URLs that the operator configured. Key sets and bundles have some kilobytes. */
const OPERATOR_LIMITS: FetchLimits = { timeoutMs: 10_000, maxBytes: 512 * 1024, redirects: 0 };

const REDIRECTS = new Set([301, 302, 303, 307, 308]);

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

/** A URL that keys may be fetched from: https, or http of this machine. Throws CtlError invalid_argument. */
export function trustedUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined) throw new CtlError('invalid_argument', `${JSON.stringify(text.slice(0, 200))} is not a URL`);
  const plain = url.protocol === 'http:' && LOOPBACK.has(url.hostname);
  if (url.protocol !== 'https:' && !plain) {
    throw new CtlError('invalid_argument', `${text.slice(0, 200)} must use https`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new CtlError('invalid_argument', `the URL of ${url.host} must not contain a password`);
  }
  return url;
}

function redirected(from: URL, location: string | null): URL {
  const to = location === null ? null : URL.parse(location, from.href);
  if (to === null) throw new CtlError('unavailable', 'redirects without a valid location');
  if (to.protocol !== 'https:' && to.protocol !== from.protocol) {
    throw new CtlError('unavailable', `redirects from ${from.protocol} to ${to.protocol}`);
  }
  return to;
}

/** The response after all redirects, of any status. */
async function followRedirects(url: URL, fetch: Fetch, init: RequestInit, redirects: number): Promise<Response> {
  let at = url;
  for (let left = redirects; ; left--) {
    const response = await fetch(at.href, init);
    if (!REDIRECTS.has(response.status)) return response;
    await response.body?.cancel();
    if (left === 0) {
      const followed = redirects === 0 ? 'redirects are not followed' : `after ${redirects} redirects`;
      throw new CtlError('unavailable', `returned HTTP ${response.status}, ${followed}`);
    }
    at = redirected(at, response.headers.get('location'));
  }
}

async function boundedText(response: Response, maxBytes: number): Promise<string> {
  const tooMuch = (): CtlError => new CtlError('unavailable', `returned more than ${maxBytes} bytes`);
  if (Number(response.headers.get('content-length') ?? 0) > maxBytes) {
    await response.body?.cancel();
    throw tooMuch();
  }
  if (response.body === null) return '';
  const body = await readUpTo(maxBytes, response.body);
  if (body === undefined) throw tooMuch();
  return body.toString('utf8');
}

/** The cause of a failed fetch, whose own message is only `fetch failed`. */
function causeOf(error: unknown, timeoutMs: number): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return `no response within ${timeoutMs / 1000} s`;
  if (error instanceof AggregateError) return causeOf(error.errors[0], timeoutMs);
  return error.cause instanceof Error ? error.cause.message : error.message;
}

/** The parsed document. Rejects with CtlError unavailable naming the URL. */
export async function fetchJson(
  url: URL,
  fetch: Fetch,
  signal: AbortSignal,
  { timeoutMs, maxBytes, redirects }: FetchLimits = OPERATOR_LIMITS,
): Promise<unknown> {
  try {
    const init: RequestInit = {
      redirect: 'manual',
      headers: { accept: 'application/json' },
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    };
    const response = await followRedirects(url, fetch, init, redirects);
    if (response.status !== 200) {
      await response.body?.cancel();
      throw new CtlError('unavailable', `returned HTTP ${response.status}`);
    }
    const text = await boundedText(response, maxBytes);
    try {
      return JSON.parse(text);
    } catch {
      throw new CtlError('unavailable', 'did not return JSON');
    }
  } catch (error) {
    const reason = error instanceof CtlError ? error.message : causeOf(error, timeoutMs);
    throw new CtlError('unavailable', `${shownUrl(url)}: ${reason}`, {}, error);
  }
}
