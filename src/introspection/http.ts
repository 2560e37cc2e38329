/** What the parts of the introspection server answer with. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { CtlError } from '../core/errors.ts';
import { readUpTo } from '../core/network/body.ts';

export function sendJson(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
  });
  response.end(`${JSON.stringify(value, null, 2)}\n`);
}

export function sendText(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' });
  response.end(`${text}\n`);
}

/** Answers a refused request with the status and headers of the error. */
export function refuse(response: ServerResponse, error: CtlError): void {
  if (error.code === 'unauthenticated') response.setHeader('www-authenticate', 'Bearer');
  if (error.code === 'unavailable') response.setHeader('retry-after', '5');
  const statuses: Partial<Record<CtlError['code'], number>> = {
    unauthenticated: 401,
    permission_denied: 403,
    invalid_argument: 400,
    resource_exhausted: 429,
    unimplemented: 501,
  };
  sendText(response, statuses[error.code] ?? 503, error.oneLine());
}

/** A change has some dozens of bytes. */
const MAX_BODY_BYTES = 4096;

/** The JSON body of a change. Throws CtlError invalid_argument. */
export async function jsonBody(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const text = (await readUpTo(MAX_BODY_BYTES, request))?.toString('utf8');
  let value: unknown;
  try {
    value = JSON.parse(text ?? '');
  } catch {
    throw new CtlError('invalid_argument', 'the body is not JSON or is too long');
  }
  if (typeof value !== 'object' || value === null) {
    throw new CtlError('invalid_argument', 'the body is not a JSON object');
  }
  return value as Readonly<Record<string, unknown>>;
}
