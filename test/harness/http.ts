/** One HTTP/1.1 request on a new connection: pooled connections would hide what happens to new ones. */
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';

export interface RequestOptions {
  readonly port: number;
  /** Address connected to; default 127.0.0.1. */
  readonly address?: string;
  /** `Host` header; default the address. */
  readonly host?: string;
  readonly path?: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | Uint8Array;
  /** Default 15 s. */
  readonly timeoutMs?: number;
}

export interface Response {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** The body as JSON; throws when it is not JSON. */
  json(): unknown;
}

export function request(options: RequestOptions): Promise<Response> {
  const { port, address = '127.0.0.1', host, path = '/', method = 'GET', headers, body, timeoutMs = 15_000 } = options;
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({
      agent: false,
      host: address,
      port,
      path,
      method,
      signal: AbortSignal.timeout(timeoutMs),
      headers: { ...(host === undefined ? {} : { host }), connection: 'close', ...headers } as Record<string, string>,
    });
    outgoing.once('error', reject);
    outgoing.once('response', (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
      incoming.once('error', reject);
      incoming.once('end', () => {
        const text = Buffer.concat(chunks).toString();
        const status = incoming.statusCode ?? 0;
        resolve({ status, headers: incoming.headers, body: text, json: () => JSON.parse(text) as unknown });
      });
    });
    outgoing.end(body);
  });
}
