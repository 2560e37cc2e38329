/**
 * HTTP requests to Envoy's admin interface and to the application. Each uses a new connection and closes it: pooled
 * connections of probes are how agents leak them.
 */
import type { IncomingMessage, OutgoingHttpHeaders, RequestOptions } from 'node:http';
import { CtlError } from '../core/errors.ts';

export interface CallOptions {
  readonly host?: string;
  readonly port: number;
  readonly path: string;
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  /** HTTPS without verifying the certificate, as the orchestrator's own probes do. */
  readonly tls?: boolean;
  /** Limit for the whole exchange, body included. */
  readonly timeoutMs: number;
  /** Aborts the call. */
  readonly signal?: AbortSignal;
}

/** Resolves with the response, whose body is not read yet. Rejects with an error of one line. */
export async function call(options: CallOptions): Promise<IncomingMessage> {
  const { host = '127.0.0.1', port, path, method = 'GET', headers, timeoutMs, signal } = options;
  // Loaded when needed: without an HTTP client Envoy starts sooner.
  const { request } = process.getBuiltinModule(options.tls === true ? 'node:https' : 'node:http');
  const timeout = AbortSignal.timeout(timeoutMs);
  const requestOptions: RequestOptions & { rejectUnauthorized?: boolean } = {
    host,
    port,
    path,
    method,
    agent: false,
    signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
    // Spread, because these fields must not be `undefined`.
    ...(headers === undefined ? {} : { headers }),
    ...(options.tls === true ? { rejectUnauthorized: false } : {}),
  };
  return new Promise((resolve, reject) => {
    const outgoing = request(requestOptions, resolve);
    outgoing.on('error', (error) =>
      reject(
        timeout.aborted ? new CtlError('deadline_exceeded', `no response within ${timeoutMs} ms`, {}, error) : error,
      ),
    );
    // Without an error and without a response: the status 101 (Switching Protocols) makes Node close the connection.
    outgoing.once('close', () => reject(new CtlError('unavailable', 'the connection was closed without a response')));
    outgoing.end();
  });
}

/** Status and text of the response, at most `maxBytes` of it; the connection is closed afterwards. */
export async function callText(
  options: CallOptions,
  maxBytes: number,
): Promise<{ readonly status: number; readonly text: string }> {
  const response = await call(options);
  const chunks: Buffer[] = [];
  let size = 0;
  // Leaving the loop destroys the response and its connection.
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size >= maxBytes) break;
  }
  return { status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8').slice(0, maxBytes) };
}

/** The status of the response; its body is discarded. */
export async function callStatus(options: CallOptions): Promise<number> {
  const response = await call(options);
  response.destroy();
  return response.statusCode ?? 0;
}
