/** The echo backends themselves, without life cycle: used in this process and, by `echo-main.ts`, in another one. */
import { createServer as createHttpServer, type Server as HttpServer, type IncomingHttpHeaders } from 'node:http';
import { createServer as createHttp2Server, type Http2Server } from 'node:http2';
import { createServer as createTcpServer, type Server as TcpServer } from 'node:net';

/** The HTTP backend's answer about the request that it received. */
export interface EchoReply {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Address and port that the connection was made to, as the backend sees it. */
  readonly local: string;
  /** Address that the connection came from, as the backend sees it. */
  readonly remote: string;
  /** Number of body bytes received. */
  readonly bytes: number;
}

/**
 * Answers every request with an `EchoReply`. The query parameters `status` and `delayMs` choose the answer's status and
 * how long it takes, for tests of retries and timeouts.
 */
export function httpEcho(name: string): HttpServer {
  return createHttpServer((request, response) => {
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    request.once('end', () => {
      const query = new URL(request.url ?? '/', 'http://echo').searchParams;
      const { localAddress, localPort, remoteAddress } = request.socket;
      const reply: EchoReply = {
        name,
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        local: `${localAddress}:${localPort}`,
        remote: String(remoteAddress),
        bytes,
      };
      const answer = () => {
        response.writeHead(Number(query.get('status') ?? 200), { 'content-type': 'application/json', 'x-echo': name });
        response.end(JSON.stringify(reply));
      };
      setTimeout(answer, Number(query.get('delayMs') ?? 0));
    });
  });
}

/** Greets with its name and a line feed, then sends back what it receives. */
export function tcpEcho(name: string): TcpServer {
  return createTcpServer((socket) => {
    // A client may reset its connection; the backend ignores it.
    socket.on('error', () => socket.destroy());
    socket.write(`${name}\n`);
    socket.pipe(socket);
  });
}

/** Answers HTTP/2 in plain text (prior knowledge) with an `EchoReply`, as gRPC servers listen. */
export function http2Echo(name: string): Http2Server {
  return createHttp2Server((request, response) => {
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    request.once('end', () => {
      const { localAddress, localPort, remoteAddress } = request.stream.session?.socket ?? {};
      const reply: EchoReply = {
        name,
        method: request.method,
        path: request.url,
        headers: request.headers,
        local: `${localAddress}:${localPort}`,
        remote: String(remoteAddress),
        bytes,
      };
      response.writeHead(200, { 'content-type': 'application/json', 'x-echo': name });
      response.end(JSON.stringify(reply));
    });
  });
}

/** Sends nothing until it receives something, then its name and what it received. */
export function quietTcpEcho(name: string): TcpServer {
  return createTcpServer((socket) => {
    socket.on('error', () => socket.destroy());
    socket.once('data', (first: Buffer) => {
      socket.write(`${name}\n`);
      socket.write(first);
      socket.pipe(socket);
    });
  });
}
