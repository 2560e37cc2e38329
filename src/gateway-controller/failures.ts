/** Failures of requests: which are logged, and which concern the server rather than one object. */
import { oneLineOf } from '../core/errors.ts';
import type { FailureLog } from '../core/log.ts';
import { ApiError, ConnectionError } from '../kubernetes/index.ts';

/** Logs a failure, except a lost connection, which the connection reports once for everything that uses it. */
export function reportFailure(failures: FailureLog, error: unknown, fields?: Readonly<Record<string, unknown>>): void {
  if (!(error instanceof ConnectionError && error.lost)) failures.failed(oneLineOf(error), fields);
}

/** Whether the server refuses this object, so that the request fails until somebody changes something. */
export function isRefusal(error: unknown): boolean {
  if (!(error instanceof ApiError)) return !(error instanceof ConnectionError);
  return error.status >= 400 && error.status < 500 && error.status !== 401 && error.status !== 429;
}
