/**
 * One HTTP request, on its own connection unless the caller has a pool: pooled connections of probes may leak, and most
 * other requests are rare. Redirects are not followed, because a credential must not be sent to a server that is not
 * configured.
 */
import type { Agent, IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import type { RequestOptions } from 'node:https';
import { urlToHttpOptions } from 'node:url';
import { CtlError, type CtlErrorCode, errnoOf, oneLineOf } from '../errors.ts';
import { readUpTo } from './body.ts';

export interface HttpCall {
  /** With https, the server is verified. */
  readonly to: URL | HttpTarget;
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string;
  /** Limit for the whole exchange, milliseconds. */
  readonly timeoutMs: number;
  /** Aborts the call. */
  readonly signal?: AbortSignal;
  /**
   * The connections to use, for callers with many requests to one server. For https they verify the server.
   */
  readonly agent?: Agent;
}

/** A server, and a path that is sent without being parsed or normalized. */
export interface HttpTarget {
  /** Default: 127.0.0.1. */
  readonly host?: string;
  readonly port: number;
  readonly path: string;
  /** HTTPS without verifying the certificate, as the kubelet's probes do. */
  readonly unverifiedTls?: boolean;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export interface HttpBytes extends Omit<HttpAnswer, 'text'> {
  readonly body: Buffer;
}

/**
 * Returns the result of `read` for the response, whatever its status; by default the response itself, with its body
 * unread. Rejects with CtlError of one line: `deadline_exceeded`, `unavailable`, or that of `read`.
 */
export async function httpCall<T = IncomingMessage>(
  { timeoutMs, signal, ...call }: HttpCall,
  read: (response: IncomingMessage) => T | Promise<T> = (response) => response as T,
): Promise<T> {
  const timeout = AbortSignal.timeout(Math.ceil(timeoutMs));
  try {
    return await read(await send(call, signal === undefined ? timeout : AbortSignal.any([timeout, signal])));
  } catch (error) {
    if (timeout.aborted) throw new CtlError('deadline_exceeded', `no response within ${timeoutMs} ms`, {}, error);
    throw error instanceof CtlError ? error : new CtlError('unavailable', reasonOf(error), {}, error);
  }
}

/** The response with its body as a string; a longer body is an error. */
export function httpText(call: HttpCall, maxBytes: number): Promise<HttpAnswer> {
  return httpCall(call, async (response) => {
    const { status, headers, body } = await wholeOf(response, maxBytes, 'unavailable');
    return { status, headers, text: body.toString('utf8') };
  });
}

/** The response with its body; a longer body is an error with the code `resource_exhausted`. */
export function httpBytes(call: HttpCall, maxBytes: number): Promise<HttpBytes> {
  return httpCall(call, (response) => wholeOf(response, maxBytes, 'resource_exhausted'));
}

async function wholeOf(response: IncomingMessage, maxBytes: number, beyond: CtlErrorCode): Promise<HttpBytes> {
  const body = await readUpTo(maxBytes, response);
  if (body === undefined) throw new CtlError(beyond, `the response is longer than ${maxBytes} bytes`);
  return { status: response.statusCode ?? 0, headers: response.headers, body };
}

/** A URL as messages show it: its query and password may be secrets. */
export function shownUrl(url: URL): string {
  return `${url.origin}${url.pathname}`.slice(0, 500);
}

function send(call: Omit<HttpCall, 'timeoutMs'>, signal: AbortSignal): Promise<IncomingMessage> {
  const { to, method = 'GET', headers = {}, body, agent = false } = call;
  const isUrl = to instanceof URL;
  const isTls = isUrl ? to.protocol === 'https:' : to.unverifiedTls === true;
  // Loaded when needed: Envoy starts sooner without an HTTP client, and the TLS module increases the memory of an
  // agent. A dynamic import would load all of node:http in a bundle.
  const { request } = process.getBuiltinModule(isTls ? 'node:https' : 'node:http');
  const options: RequestOptions = {
    ...(isUrl ? urlToHttpOptions(to) : { host: to.host ?? '127.0.0.1', port: to.port, path: to.path }),
    method,
    headers,
    agent,
    signal,
    // Explicit, because NODE_TLS_REJECT_UNAUTHORIZED=0 would send credentials to a server that is not verified.
    rejectUnauthorized: isUrl,
  };
  return new Promise<IncomingMessage>((resolve, reject) => {
    let isRepeated = false;
    const outgoing = request(options, resolve);
    outgoing.on('error', (error) => {
      // The server may close an idle connection while a request is being sent on it (RFC 9112, section 9.5).
      isRepeated = outgoing.reusedSocket && method === 'GET' && errnoOf(error) === 'ECONNRESET' && !signal.aborted;
      if (isRepeated) send(call, signal).then(resolve, reject);
      else reject(error);
    });
    // Neither an error nor a response: after status 101 (Switching Protocols), Node.js closes the connection.
    outgoing.once('close', () => {
      if (!isRepeated) reject(new CtlError('unavailable', 'the connection was closed without a response'));
    });
    outgoing.end(body);
  });
}

/** When all addresses of a name fail, their errors are in one error without a message. */
function reasonOf(error: unknown): string {
  return error instanceof AggregateError ? error.errors.map(oneLineOf).join(', ') : oneLineOf(error);
}
