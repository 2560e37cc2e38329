/** An external authorizer for tests: a real HTTP server that Envoy calls and whose behaviour a test can change. */
import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Owner } from '../../harness/index.ts';

/** The requests that it received. */
export interface Question {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface ExtAuthzServer {
  readonly port: number;
  readonly asked: readonly Question[];
  down(): Promise<void>;
  up(): Promise<void>;
}

/**
 * Answers as the request's header `x-verdict` says: `allow` with additional headers, `deny` with its own status, header
 * and body, `error`, or no answer (`hang`). Without the header it denies.
 */
export async function startExtAuthzServer(owner: Owner): Promise<ExtAuthzServer> {
  const asked: Question[] = [];
  const listener: RequestListener = (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      asked.push({ method, path: url, headers, body: Buffer.concat(chunks).toString() });
      switch (headers['x-verdict']) {
        case 'allow':
          response.writeHead(200, { 'x-user': 'ann', 'x-secret': 'for nobody', 'x-greeting': 'welcome' }).end();
          break;
        case 'error':
          response.writeHead(500).end('broken');
          break;
        case 'hang':
          break;
        default:
          response
            .writeHead(418, { 'x-reason': 'no teapot', 'x-secret': 'for nobody' })
            .end('denied by the authorizer');
      }
    });
  };
  const server = createServer(listener);
  const listen = (port: number) => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const down = async () => {
    if (!server.listening) return;
    server.closeAllConnections();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  };
  owner.after(down);
  const up = async () => {
    if (!server.listening) await listen(port);
  };
  return { port, asked, down, up };
}
