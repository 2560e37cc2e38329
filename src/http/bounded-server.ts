/**
 * HTTP servers whose connections are bounded in number and in time, so that clients that say nothing cannot keep probes
 * away. Times count from the moment at which a connection was accepted, not from its first byte.
 */
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type HeldConnection, HttpConnections } from './connections.ts';
import { httpConnections } from './limits.ts';

/** From the accept to the end of a request's headers, ms. */
const HEADERS_TIMEOUT_MS = 5_000;

/** From there to the end of its body, which is small wherever there is one, ms. */
const REQUEST_TIMEOUT_MS = 10_000;

/** A client that takes nothing of its answer for so long, ms, does not get the rest. */
const UNREAD_TIMEOUT_MS = 30_000;

/** Between requests of a connection, ms. */
const KEEP_ALIVE_TIMEOUT_MS = 5_000;

/** How often connections are looked at, ms, for what times have passed. */
const CHECK_MS = 1_000;

/** Paths of probes; answered whatever else is being answered. */
const PROBES: ReadonlySet<string> = new Set(['/ready', '/healthz', '/healthz/ready']);

/**
 * Part of the places whose requests may be answered at a time: of the others one always waits for its client, and can
 * make room for a probe.
 */
const ANSWERED = 0.5;

/** A line about turned-away connections is written at most so often, ms. */
const REPORT_EVERY_MS = 60_000;

export interface BoundedServerOptions {
  /** What the server is called in the log: the flag or port that it listens for. */
  readonly name: string;
  /** Takes the lines about connections that were closed for want of places, one a minute at most. */
  readonly warn: (line: string) => void;
  /** Connections at a time; by default what the limit of open files allows. */
  readonly maxConnections?: number;
  /** From the accept to the end of a request's headers, ms; 5 s by default. */
  readonly headersTimeoutMs?: number;
}

/** A connection and the requests that are being answered on it. */
class Held implements HeldConnection {
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

/** One line for many connections. */
class Reports {
  readonly #options: BoundedServerOptions;
  readonly #places: number;
  #writtenAt = Number.NEGATIVE_INFINITY;
  #more = 0;

  constructor(options: BoundedServerOptions, places: number) {
    this.#options = options;
    this.#places = places;
  }

  report(what: string): void {
    const now = performance.now();
    if (now - this.#writtenAt < REPORT_EVERY_MS) {
      this.#more++;
      return;
    }
    const { name, warn } = this.#options;
    const more = this.#more === 0 ? '' : ` (and ${this.#more} times more since this was last said)`;
    warn(`${name}: too many connections or requests (${this.#places} places, fewer for one address): ${what}${more}`);
    this.#writtenAt = now;
    this.#more = 0;
  }
}

/** Requests that are being answered, other than those of probes. */
class Answers {
  readonly #max: number;
  readonly #open = new Set<ServerResponse>();

  /** @param max at a time */
  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Takes one more, maybe in place of the oldest whose client has not taken what is there for it. False: there is none
   * of those.
   */
  begin(response: ServerResponse): boolean {
    if (this.#open.size >= this.#max) {
      const unread = [...this.#open].find(({ writableEnded }) => writableEnded);
      if (unread === undefined) return false;
      this.#open.delete(unread);
      unread.destroy();
    }
    this.#open.add(response);
    response.once('close', () => this.#open.delete(response));
    return true;
  }
}

function refuse(response: ServerResponse): void {
  response.writeHead(503, { 'content-type': 'text/plain; charset=utf-8', 'retry-after': '1', connection: 'close' });
  response.end('too many requests are being answered\n');
}

/** Makes a server; the caller has it listen and closes it. */
export function createBoundedServer(options: BoundedServerOptions, listener: RequestListener): Server {
  const { maxConnections = httpConnections(), headersTimeoutMs = HEADERS_TIMEOUT_MS } = options;
  const connections = new HttpConnections<Held>(maxConnections);
  const reports = new Reports(options, maxConnections);
  const held = new WeakMap<Socket, Held>();
  const answers = new Answers(Math.max(1, Math.floor(ANSWERED * maxConnections)));
  const timeouts = {
    headersTimeout: headersTimeoutMs,
    requestTimeout: headersTimeoutMs + REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    connectionsCheckingInterval: Math.min(CHECK_MS, headersTimeoutMs),
  };
  const server = createServer(timeouts, (request, response) => {
    const [path = ''] = (request.url ?? '').split('?', 1);
    if (!PROBES.has(path) && !answers.begin(response)) {
      reports.report(`refused a request of ${request.socket.remoteAddress ?? ''}`);
      refuse(response);
      return;
    }
    held.get(request.socket)?.answer(request, response);
    listener(request, response);
  });
  server.on('connection', (socket) => {
    const connection = new Held(socket);
    const address = socket.remoteAddress ?? '';
    const admitted = connections.admit(address, connection);
    if (admitted !== 'admitted') {
      const what = admitted === 'refused' ? 'refused one' : 'closed the oldest that waits for its client for one';
      reports.report(`${what} of ${address}`);
    }
    if (admitted === 'refused') {
      socket.destroy();
      return;
    }
    held.set(socket, connection);
    socket.once('close', () => connections.leave(connection));
  });
  // While an answer is being made, the client has nothing to do.
  server.setTimeout(UNREAD_TIMEOUT_MS, (socket) => {
    if (held.get(socket)?.idle !== false) socket.destroy();
  });
  return server;
}
