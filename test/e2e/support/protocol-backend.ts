/** A backend for all that HTTP/1.1 can do, a gRPC server, and a TLS server, in the process of the test. */
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Server as TcpServer } from 'node:net';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import {
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type sendUnaryData,
} from '@grpc/grpc-js';
import type { Owner } from '../../harness/index.ts';

const CERTIFICATES = join(import.meta.dirname, '../../golden-harness/certs');

export interface Place {
  readonly name: string;
  readonly address: string;
  readonly port: number;
}

export interface HttpBackend {
  /** Paths of the requests that it has received. */
  readonly paths: readonly string[];
}

/**
 * Answers a request, when its body has ended, with its own name in `x-backend`, the number of body bytes in
 * `x-received`, and a body of the length that the query parameter `bytes` has. Accepts upgrades to `websocket`, and
 * sends back what arrives then.
 */
export async function startHttpBackend(owner: Owner, { name, address, port }: Place): Promise<HttpBackend> {
  const paths: string[] = [];
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    let received = 0;
    request.on('data', (chunk: Buffer) => {
      received += chunk.length;
    });
    request.once('end', () => {
      paths.push(request.url ?? '');
      const query = new URL(request.url ?? '/', 'http://backend').searchParams;
      response.writeHead(Number(query.get('status') ?? 200), { 'x-backend': name, 'x-received': received });
      response.end(Buffer.alloc(Number(query.get('bytes') ?? 0), 'b'));
    });
  };
  const server = createServer(answer);
  server.on('upgrade', (_request, socket) => {
    socket.on('error', () => socket.destroy());
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n');
    socket.write(`X-Backend: ${name}\r\n\r\n`);
    socket.pipe(socket);
  });
  await listen(owner, server, port, address);
  return { paths };
}

/** Greets each TLS connection with its name. */
export function startTlsBackend(owner: Owner, { name, address, port }: Place): Promise<void> {
  const [key, cert] = ['tls.key', 'tls.crt'].map((file) => readFileSync(join(CERTIFICATES, file)));
  const server = createTlsServer({ key, cert }, (socket) => {
    socket.on('error', () => socket.destroy());
    socket.end(`${name}\n`);
  });
  return listen(owner, server, port, address);
}

async function listen(owner: Owner, server: TcpServer, port: number, address: string): Promise<void> {
  await new Promise<void>((resolve) => server.listen(port, address, resolve));
  owner.after(() => {
    server.close();
  });
}

const raw = (bytes: Buffer) => bytes;
const CODEC = { requestSerialize: raw, requestDeserialize: raw, responseSerialize: raw, responseDeserialize: raw };

/** Methods of the gRPC backend: both return what they are sent. */
export const GRPC_METHODS = {
  unary: { path: '/test.Echo/Unary', requestStream: false, responseStream: false, ...CODEC },
  stream: { path: '/test.Echo/Stream', requestStream: true, responseStream: true, ...CODEC },
} as const;

export async function startGrpcBackend(owner: Owner, { address, port }: Omit<Place, 'name'>): Promise<void> {
  const server = new Server();
  server.addService(GRPC_METHODS, {
    unary: ({ request }: ServerUnaryCall<Buffer, Buffer>, respond: sendUnaryData<Buffer>) => respond(null, request),
    stream: (call: ServerDuplexStream<Buffer, Buffer>) => {
      call.on('data', (message: Buffer) => call.write(message));
      call.once('end', () => call.end());
    },
  });
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`${address}:${port}`, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    );
  });
  owner.after(() => server.forceShutdown());
}
