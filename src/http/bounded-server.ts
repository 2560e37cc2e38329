/**
 * HTTP servers with limits on the number and the duration of connections, so that idle clients cannot keep probes
 * from being answered. Times are measured from the accept of a connection, not from its first byte; with TLS, a
 * connection counts from its accept too, and the time of its handshake is limited on its own.
 */
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, type ServerOptions, type Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { SecureContextOptions } from 'node:tls';
import { HttpConnections, type ManagedConnection } from './connections.ts';
import { answeredRequests, httpConnections } from './limits.ts';

/** Time from the accept to the end of a request's headers, ms. */
const HEADERS_TIMEOUT_MS = 5_000;

/** Time from the end of the headers to the end of the body, which is small if there is one, ms. */
const REQUEST_TIMEOUT_MS = 10_000;

/** Time after which a client that does not read its response is disconnected, ms. */
const UNREAD_TIMEOUT_MS = 30_000;

/** Time between requests of a connection, ms. */
const KEEP_ALIVE_TIMEOUT_MS = 5_000;

/** Interval of the checks of these times, ms. */
const CHECK_MS = 1_000;

/** Paths of probes, which are answered however many responses are outstanding. */
const PROBES: ReadonlySet<string> = new Set(['/ready', '/healthz', '/healthz/ready']);

/** Minimum time between two lines about refused connections, ms. */
const REPORT_EVERY_MS = 60_000;

export interface BoundedServerOptions {
  /** Name of the server in the log: its flag or port. */
  readonly name: string;
  /** Receives the lines about connections that were closed or refused, at most one a minute. */
  readonly warn: (line: string) => void;
  /** Maximum number of concurrent connections; by default a part of the limit of open files. */
  readonly maxConnections?: number;
  /** Time from the accept to the end of a request's headers, ms; 5 s by default. */
  readonly headersTimeoutMs?: number;
  /** Time between requests of a connection, ms; 5 s by default. */
  readonly keepAliveTimeoutMs?: number;
}

/** Ends a server with its connections. */
export function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeAllConnections();
  return closed;
}

/** A connection and the requests that are being answered on it. */
class ServedConnection implements ManagedConnection {
  readonly #socket: Socket;
  readonly #answering = new Map<ServerResponse, IncomingMessage>();

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  get idle(): boolean {
    return [...this.#answering].every(([response, request]) => response.writableEnded || !request.complete);
  }

  close(): void {
    this.#socket.destroy();
  }

  answer(request: IncomingMessage, response: ServerResponse): void {
    this.#answering.set(response, request);
    response.once('close', () => this.#answering.delete(response));
  }
}

/** Logs refused connections, one line for many. */
class RefusalReports {
  readonly #options: BoundedServerOptions;
  readonly #maxConnections: number;
  #writtenAt = Number.NEGATIVE_INFINITY;
  #more = 0;

  constructor(options: BoundedServerOptions, maxConnections: number) {
    this.#options = options;
    this.#maxConnections = maxConnections;
  }

  report(what: string): void {
    const now = performance.now();
    if (now - this.#writtenAt < REPORT_EVERY_MS) {
      this.#more++;
      return;
    }
    const { name, warn } = this.#options;
    const more = this.#more === 0 ? '' : ` (and ${this.#more} more since the last report)`;
    const limit = `maximum ${this.#maxConnections}, fewer per address`;
    warn(`${name}: too many connections or requests (${limit}): ${what}${more}`);
    this.#writtenAt = now;
    this.#more = 0;
  }
}

/** Requests, except those of probes, whose responses are outstanding. */
class Answers {
  readonly #max: number;
  readonly #open = new Map<ServerResponse, IncomingMessage>();

  /**
   * @param max maximum number of outstanding responses
   */
  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Adds a response. If there are too many, the oldest response that waits for its client (to read it, or to send the
   * rest of the request) is aborted. Returns false if there is no such response.
   */
  begin(request: IncomingMessage, response: ServerResponse): boolean {
    if (this.#open.size >= this.#max) {
      const [waiting] = [...this.#open].find(([other, { complete }]) => other.writableEnded || !complete) ?? [];
      if (waiting === undefined) return false;
      this.#open.delete(waiting);
      waiting.destroy();
    }
    this.#open.set(response, request);
    response.once('close', () => this.#open.delete(response));
    return true;
  }
}

function refuse(response: ServerResponse): void {
  response.writeHead(503, { 'content-type': 'text/plain; charset=utf-8', 'retry-after': '1', connection: 'close' });
  response.end('too many requests are in progress\n');
}

/** Connections of a server, and the requests that are answered on them. */
class ServedConnections {
  readonly #reports: RefusalReports;
  readonly #connections: HttpConnections<ServedConnection>;
  readonly #answers: Answers;
  /** By remote address and port, which a socket and the TLS socket around it have in common. */
  readonly #served = new Map<string, ServedConnection>();

  constructor(options: BoundedServerOptions, maxConnections: number) {
    this.#reports = new RefusalReports(options, maxConnections);
    this.#connections = new HttpConnections<ServedConnection>(maxConnections);
    this.#answers = new Answers(answeredRequests(maxConnections));
  }

  /** Called for an accepted connection, before its TLS handshake if it has one. */
  accept(socket: Socket): void {
    const connection = new ServedConnection(socket);
    const address = socket.remoteAddress ?? '';
    const admitted = this.#connections.admit(address, connection);
    if (admitted !== 'admitted') {
      const what = admitted === 'refused' ? 'refused a connection' : 'closed the oldest idle connection to accept one';
      this.#reports.report(`${what} from ${address}`);
    }
    if (admitted === 'refused') {
      socket.destroy();
      return;
    }
    const key = keyOf(socket);
    this.#served.set(key, connection);
    socket.once('close', () => {
      this.#connections.leave(connection);
      if (this.#served.get(key) === connection) this.#served.delete(key);
    });
  }

  /** Whether the request may be processed; otherwise it has been refused. */
  begin(request: IncomingMessage, response: ServerResponse): boolean {
    const [path = ''] = (request.url ?? '').split('?', 1);
    if (!PROBES.has(path) && !this.#answers.begin(request, response)) {
      this.#reports.report(`refused a request from ${request.socket.remoteAddress ?? ''}`);
      refuse(response);
      return false;
    }
    this.#served.get(keyOf(request.socket))?.answer(request, response);
    return true;
  }

  /** Whether the client of the connection has something to send or to read. */
  waitsForClient(socket: Socket): boolean {
    return this.#served.get(keyOf(socket))?.idle !== false;
  }
}

function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress ?? ''}|${remotePort ?? 0}`;
}

function timeoutsOf(options: BoundedServerOptions): ServerOptions {
  const { headersTimeoutMs = HEADERS_TIMEOUT_MS, keepAliveTimeoutMs = KEEP_ALIVE_TIMEOUT_MS } = options;
  return {
    headersTimeout: headersTimeoutMs,
    requestTimeout: headersTimeoutMs + REQUEST_TIMEOUT_MS,
    keepAliveTimeout: keepAliveTimeoutMs,
    connectionsCheckingInterval: Math.min(CHECK_MS, headersTimeoutMs),
  };
}

function bound<S extends Server | TlsServer>(server: S, options: BoundedServerOptions, listener: RequestListener): S {
  const connections = new ServedConnections(options, options.maxConnections ?? httpConnections());
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    if (connections.begin(request, response)) listener(request, response);
  });
  // Both kinds of servers report TCP connections with this event.
  server.on('connection', (socket: Socket) => connections.accept(socket));
  // While a response is being computed, the client has nothing to send or read.
  server.setTimeout(UNREAD_TIMEOUT_MS, (socket: Socket) => {
    if (connections.waitsForClient(socket)) socket.destroy();
  });
  return server;
}

/** Makes a server. The caller starts and closes it. */
export function createBoundedServer(options: BoundedServerOptions, listener: RequestListener): Server {
  return bound(createServer(timeoutsOf(options)), options, listener);
}

/**
 * Makes a server with TLS (HTTP/1.1 only). The caller starts and closes it, and replaces the certificate with
 * `setSecureContext`: existing connections keep theirs.
 */
export function createBoundedTlsServer(
  options: BoundedServerOptions,
  context: SecureContextOptions,
  listener: RequestListener,
): TlsServer {
  const { headersTimeoutMs = HEADERS_TIMEOUT_MS } = options;
  const tls = { ...context, ALPNProtocols: ['http/1.1'], handshakeTimeout: headersTimeoutMs };
  const server = bound(createTlsServer({ ...timeoutsOf(options), ...tls }), options, listener);
  // A failed handshake affects that client only.
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  return server;
}
