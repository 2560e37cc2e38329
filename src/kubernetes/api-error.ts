/** Error responses of an API server as typed errors (Kubernetes API conventions, "Response Status Kind"). */
import { CtlError, type CtlErrorCode } from '../core/errors.ts';

/** The fields of a `Status` object that are read. */
export interface Status {
  /** HTTP status code. */
  readonly code: number;
  /** Machine-readable cause, such as `AlreadyExists`; empty where the server gave none. */
  readonly reason: string;
  readonly message: string;
  /** `details.retryAfterSeconds` or the header Retry-After, in milliseconds. */
  readonly retryAfterMs?: number;
}

const CODES: Readonly<Record<number, CtlErrorCode>> = {
  400: 'invalid_argument',
  401: 'unauthenticated',
  403: 'permission_denied',
  404: 'not_found',
  409: 'failed_precondition',
  410: 'failed_precondition',
  413: 'resource_exhausted',
  422: 'invalid_argument',
  429: 'resource_exhausted',
  504: 'deadline_exceeded',
};

/** Maximum length of a server's message that is kept; messages of webhooks and proxies can be whole pages. */
const MAX_MESSAGE = 500;

/** The API server answered a request, or ended a watch, with an error. `message` is one line. */
export class ApiError extends CtlError {
  /** HTTP status code. */
  readonly status: number;
  readonly reason: string;
  readonly retryAfterMs: number | undefined;

  constructor({ code, reason, message, retryAfterMs }: Status) {
    const line = message.replace(/\p{Cc}+/gu, ' ').trim();
    const text = line.length > MAX_MESSAGE ? `${line.slice(0, MAX_MESSAGE)}…` : line;
    const cause = reason === 'AlreadyExists' ? 'already_exists' : (CODES[code] ?? 'unavailable');
    super(cause, `HTTP ${code}${reason === '' ? '' : ` ${reason}`}${text === '' ? '' : `: ${text}`}`);
    this.name = 'ApiError';
    this.status = code;
    this.reason = reason;
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * The status of a failed request.
 *
 * @param object the body, if it is an object @param text the message of a body that is not a Status object
 */
export function statusOf(code: number, object: unknown, text: string, retryAfter: string | undefined): Status {
  const fromHeader = retryAfterMs(retryAfter);
  const status = statusObject(object) ?? { code, reason: '', message: text };
  const wait = fromHeader ?? status.retryAfterMs;
  return {
    code,
    reason: status.reason,
    message: status.message,
    ...(wait === undefined ? {} : { retryAfterMs: wait }),
  };
}

/** A `Status` as JSON carries it: the body of a failed request, or the object of a watch event ERROR. */
export function statusObject(value: unknown): Status | undefined {
  if (typeof value !== 'object' || value === null || !('code' in value) || typeof value.code !== 'number')
    return undefined;
  const { reason, message, details } = value as Record<string, unknown>;
  const seconds =
    typeof details === 'object' && details !== null && 'retryAfterSeconds' in details
      ? details.retryAfterSeconds
      : undefined;
  return {
    code: value.code,
    reason: typeof reason === 'string' ? reason : '',
    message: typeof message === 'string' ? message : '',
    ...(typeof seconds === 'number' && seconds > 0
      ? { retryAfterMs: Math.min(seconds * 1000, MAX_RETRY_AFTER_MS) }
      : {}),
  };
}

/** Maximum wait that a server can request, ms. */
const MAX_RETRY_AFTER_MS = 120_000;

/** Retry-After in seconds (RFC 9110, 10.2.3); API servers send no dates. */
function retryAfterMs(header: string | undefined): number | undefined {
  if (header === undefined || !/^\d{1,6}$/.test(header)) return undefined;
  return Math.min(Number(header) * 1000, MAX_RETRY_AFTER_MS);
}

/** The API server could not be reached, or the connection or stream broke before the answer was complete. */
export class ConnectionError extends CtlError {
  /** Whether the whole connection is lost: it delays its own attempts, so requests need no delay of their own. */
  readonly lost: boolean;

  constructor(message: string, lost: boolean, cause?: unknown) {
    super('unavailable', message, {}, cause);
    this.name = 'ConnectionError';
    this.lost = lost;
  }
}

/** Whether the connection as a whole is lost, which the connection reports itself, once for everything that uses it. */
export function isLost(error: unknown): boolean {
  return error instanceof ConnectionError && error.lost;
}
