/**
 * Requests to token endpoints and metadata servers. Redirects are not followed, because a credential must not go to a
 * server that the operator has not named. Answers and times are limited. No connection is kept: requests are rare.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { RequestOptions } from 'node:https';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { readUpTo } from '../../core/network/body.ts';
import { shownUrl } from './service-url.ts';

/** Responses with tokens have some kilobytes. */
const MAX_ANSWER_BYTES = 64 * 1024;

export interface ServiceCall {
  readonly url: URL;
  readonly method: 'GET' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Limit for the whole exchange. */
  readonly timeoutMs: number;
  /** Aborts the call. */
  readonly signal: AbortSignal;
}

export interface ServiceAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** The answer of any status. Rejects with CtlError unavailable or deadline_exceeded, which names the URL. */
export async function callService({ timeoutMs, signal, ...call }: ServiceCall): Promise<ServiceAnswer> {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const response = await send(call, AbortSignal.any([timeout, signal]));
    return { status: response.statusCode ?? 0, headers: response.headers, text: await readText(response) };
  } catch (error) {
    const at = shownUrl(call.url);
    if (timeout.aborted)
      throw new CtlError('deadline_exceeded', `${at}: no response within ${timeoutMs} ms`, {}, error);
    throw new CtlError('unavailable', `${at}: ${reasonOf(error)}`, {}, error);
  }
}

function send(call: Pick<ServiceCall, 'url' | 'method' | 'headers' | 'body'>, signal: AbortSignal) {
  const { url, method, body } = call;
  // Loaded when needed: TLS has a part in the memory of an agent.
  const { request } = process.getBuiltinModule(url.protocol === 'https:' ? 'node:https' : 'node:http');
  const headers = { ...call.headers, ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }) };
  // Explicit, because otherwise NODE_TLS_REJECT_UNAUTHORIZED=0 would send credentials to a server that is not verified.
  const options: RequestOptions = { method, headers, agent: false, signal, rejectUnauthorized: true };
  return new Promise<IncomingMessage>((resolve, reject) => {
    const outgoing = request(url, options, resolve);
    outgoing.on('error', reject);
    // Without an error and without a response: the status 101 (Switching Protocols) makes Node close the connection.
    outgoing.once('close', () => reject(new CtlError('unavailable', 'the connection was closed without a response')));
    outgoing.end(body);
  });
}

async function readText(response: IncomingMessage): Promise<string> {
  const body = await readUpTo(MAX_ANSWER_BYTES, response);
  if (body !== undefined) return body.toString('utf8');
  throw new CtlError('unavailable', `its response is longer than ${MAX_ANSWER_BYTES} bytes`);
}

/** Errors of a connection to several addresses have no message of their own. */
function reasonOf(error: unknown): string {
  return error instanceof AggregateError ? oneLineOf(error.errors[0]) : oneLineOf(error);
}
