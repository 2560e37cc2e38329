/** Failures of requests: which are logged, which concern one object rather than the server, and what they wait for. */
import { type CtlError, oneLineOf } from '../core/errors.ts';
import type { FailureLog } from '../core/log.ts';
import { ApiError, ConnectionError, isLost } from './api-error.ts';

/** Delay after a response that is too large, ms: it costs too much to repeat soon. */
const RETRY_LARGE_MS = 120_000;

/** Logs a failure, except a lost connection, which the connection reports once for everything that uses it. */
export function reportFailure(failures: FailureLog, error: unknown, fields?: Readonly<Record<string, unknown>>): void {
  if (!isLost(error)) failures.failed(oneLineOf(error), fields);
}

/** Whether the server rejects this object: the request fails until the object or the server's rules change. */
export function isRefusal(error: unknown): boolean {
  if (!(error instanceof ApiError)) return !(error instanceof ConnectionError);
  return error.status >= 400 && error.status < 500 && error.status !== 401 && error.status !== 429;
}

/** Whether other requests are likely to fail as well: the server is unavailable, or permissions are missing. */
export function isOfServer(error: CtlError): boolean {
  if (error instanceof ApiError)
    return error.status === 401 || error.status === 403 || error.status === 429 || error.status >= 500;
  return error instanceof ConnectionError;
}

/** Minimum wait before the next attempt, ms. */
export function minimumWait(error: CtlError): number {
  if (error instanceof ApiError) return error.retryAfterMs ?? 0;
  return error.code === 'resource_exhausted' ? RETRY_LARGE_MS : 0;
}
