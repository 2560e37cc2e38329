/** Test support: an HTTP server on loopback that answers as each test says, and records requests. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';

export interface Received {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

export interface TestService {
  readonly url: URL;
  readonly received: readonly Received[];
  /** Answers the requests from now on. */
  answer: (response: ServerResponse, request: Received) => void;
}

/** The server is closed with the test. */
export async function startService(t: TestContext, answer: TestService['answer']): Promise<TestService> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      const each = { path: request.url ?? '', headers: request.headers, body };
      received.push(each);
      service.answer(response, each);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  const service: TestService = { url, received, answer };
  return service;
}

export function json(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}) {
  return (response: ServerResponse): void => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };
}

/** A token without a valid signature. */
export function jwt(claims: Readonly<Record<string, unknown>>): string {
  return `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.c2ln`;
}
