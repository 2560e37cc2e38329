/**
 * The gRPC server: accepts connections on one or several listeners, finds the handler of each call, and keeps watch
 * over the connections with one timer for all.
 */
import { createServer, type Server as NetServer, type Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket, type Server as TlsServer } from 'node:tls';
import { CtlError } from '../core/errors.ts';
import { readShared, readSharedSecured, type SharedReads } from './buffers/shared-reads.ts';
import { Connection } from './connection.ts';
import { Http2Error } from './frames/frames.ts';
import { httpError, isGrpc, timeoutMs, trailersOnly } from './headers/headers.ts';
import { PerAddressLimiter } from './limits/per-address-limiter.ts';
import { ReadScheduler } from './limits/read-scheduler.ts';
import type { Stream } from './streams/stream.ts';
import type {
  ConnectionInfo,
  GrpcListener,
  GrpcServer,
  GrpcServerOptions,
  ListenerTls,
  StreamHandler,
  UnaryMethod,
} from './types.ts';
import { UnaryCalls } from './unary.ts';

/**
 * Waiting connections per listener. With Node's 511, a thousand proxies that come back within 50 ms would have to send
 * their SYN again after a second. The kernel caps it at net.core.somaxconn.
 */
const ACCEPT_BACKLOG = 4096;

/** How often the connections are looked after, ms: a part of the shortest patience, within these. */
const MIN_TICK_MS = 5;
const MAX_TICK_MS = 1000;
const TICKS_PER_PATIENCE = 4;

const UNSUPPORTED_MEDIA_TYPE = 415;
const METHOD_NOT_ALLOWED = 405;

/** Longest delay of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;

type Handler = { readonly unary: UnaryMethod } | { readonly stream: StreamHandler };

interface Listening {
  readonly server: NetServer;
  readonly close: () => void;
}

function handlersOf({ services }: GrpcServerOptions): ReadonlyMap<string, Handler> {
  const handlers = new Map<string, Handler>();
  for (const { unary = {}, streams = {} } of services) {
    for (const [path, method] of Object.entries(unary)) handlers.set(path, { unary: method });
    for (const [path, stream] of Object.entries(streams)) handlers.set(path, { stream });
  }
  return handlers;
}

class Http2GrpcServer implements GrpcServer {
  readonly #options: GrpcServerOptions;
  readonly #handlers: ReadonlyMap<string, Handler>;
  readonly #unary: UnaryCalls;
  readonly #places: PerAddressLimiter;
  readonly #listening: Listening[] = [];
  /** Also those that have not done their handshake. */
  readonly #sockets = new Set<Socket>();
  readonly #connections = new Set<Connection>();
  readonly #turns = new ReadScheduler({ now: () => performance.now() });
  readonly #ticks: NodeJS.Timeout;
  #draining = false;

  constructor(options: GrpcServerOptions) {
    this.#options = options;
    this.#handlers = handlersOf(options);
    this.#unary = new UnaryCalls(options, options.observer);
    this.#places = new PerAddressLimiter(options.maxConnections);
    const { keepaliveIntervalMs, keepaliveTimeoutMs, idleMs, sendTimeoutMs } = options;
    const shortest = Math.min(keepaliveIntervalMs, keepaliveTimeoutMs, idleMs, sendTimeoutMs);
    const every = Math.min(MAX_TICK_MS, Math.max(MIN_TICK_MS, shortest / TICKS_PER_PATIENCE));
    this.#ticks = setInterval(() => this.#tick(), every).unref();
  }

  /**
   * When this process was busy for long, or was not let run, its timers come first: what clients have said and taken
   * meanwhile is heard of before any of them is judged.
   */
  #tick(): void {
    setImmediate(() => {
      for (const connection of this.#connections) connection.tick(this.#options);
    });
  }

  async start(): Promise<void> {
    try {
      for (const listener of this.#options.listeners) await this.#listen(listener);
    } catch (error) {
      this.destroy();
      throw error;
    }
  }

  #listen({ host, port, tls }: GrpcListener): Promise<void> {
    const secure = tls === undefined ? undefined : this.#secure(tls);
    const server = createServer({ noDelay: true, pauseOnConnect: secure === undefined }, (socket) => {
      if (!this.#admit(socket)) return;
      // Node's documented way to have a TLS server take a connection that it has not accepted itself.
      if (secure === undefined) this.#connected(readShared(socket), undefined);
      else secure.server.emit('connection', socket);
    });
    this.#listening.push({ server, close: () => secure?.stop() });
    return new Promise((resolve, reject) => {
      server.on('error', (error) => {
        // Later on, a connection could not be taken, for want of memory or of a file descriptor: those that stand go
        // on.
        if (server.listening) this.#options.observer.internalError(error, 'listener');
        else reject(new CtlError('unavailable', `cannot listen on ${host ?? ''}:${port}: ${error.message}`, {}, error));
      });
      server.listen({ port, backlog: ACCEPT_BACKLOG, ...(host === undefined ? {} : { host }) }, () => resolve());
    });
  }

  #secure(tls: ListenerTls): { readonly server: TlsServer; readonly stop: () => void } {
    const server = createTlsServer({ ...tls.options, ...tls.context(), ALPNProtocols: ['h2'] });
    server.on('secureConnection', (socket) => {
      if (socket.alpnProtocol === 'h2' && this.#maySpeak(socket, tls))
        this.#connected(readSharedSecured(socket), socket);
      else socket.destroy();
    });
    if (tls.resume !== undefined) server.on('resumeSession', (id, done) => done(null, tls.resume?.(id) ?? null));
    // A client's failed handshake is its own affair.
    server.on('tlsClientError', (_error, socket) => socket.destroy());
    return { server, stop: tls.onRenew(() => server.setSecureContext(tls.context())) };
  }

  /** What a stranger has shown is read here for the first time: whatever that does, it does to his connection alone. */
  #maySpeak(socket: TLSSocket, tls: ListenerTls): boolean {
    try {
      return tls.secured?.(socket) !== false;
    } catch (error) {
      this.#options.observer.internalError(error, peerOf(socket));
      return false;
    }
  }

  #admit(socket: Socket): boolean {
    const address = socket.remoteAddress ?? '';
    const leave = this.#places.enter(address);
    if (leave === undefined || this.#draining) {
      leave?.();
      const message = 'too many connections of this address, or in all (see the limit of open files)';
      if (!this.#draining) this.#options.observer.refused(peerOf(socket), new CtlError('resource_exhausted', message));
      socket.destroy();
      return false;
    }
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => {
      this.#sockets.delete(socket);
      leave();
    });
    return true;
  }

  #connected({ socket, onBytes }: SharedReads, secured: TLSSocket | undefined): void {
    const { maxStreams, observer } = this.#options;
    const info: ConnectionInfo = { peer: peerOf(socket), address: socket.remoteAddress ?? '', secured };
    const connection: Connection = new Connection({
      socket,
      onBytes,
      info,
      turns: this.#turns,
      maxStreams,
      now: () => performance.now(),
      onStream: (stream, method) => this.#call(connection, stream, method),
      onError: (error) => {
        if (error instanceof Http2Error) observer.refused(info.peer, new CtlError('invalid_argument', error.message));
        else observer.internalError(error, info.peer);
      },
      onClose: () => this.#connections.delete(connection),
    });
    this.#connections.add(connection);
    if (this.#draining) connection.retire();
  }

  #call(connection: Connection, stream: Stream, method: string): void {
    const { metadata } = stream;
    const answer = (block: Buffer): void => connection.answer(stream, block);
    if (method !== 'POST') {
      answer(httpError(METHOD_NOT_ALLOWED));
      return;
    }
    if (!isGrpc(metadata.get('content-type'))) {
      answer(httpError(UNSUPPORTED_MEDIA_TYPE));
      return;
    }
    const [encoding = 'identity'] = metadata.get('grpc-encoding');
    const handler = this.#handlers.get(stream.path);
    if (handler === undefined) answer(trailersOnly(new CtlError('unimplemented', 'no such method here')));
    else if (encoding !== 'identity') {
      const error = new CtlError('unimplemented', 'messages are not taken compressed');
      answer(trailersOnly(error, [{ name: 'grpc-accept-encoding', value: 'identity' }]));
    } else {
      this.#limitTime(stream);
      if ('unary' in handler) this.#unary.serve(stream, handler.unary);
      else handler.stream(stream);
    }
  }

  /** The client says how long it will wait. */
  #limitTime(stream: Stream): void {
    const limit = timeoutMs(stream.metadata, stream.id);
    if (limit === undefined || limit > MAX_TIMER_MS) return;
    const timer = setTimeout(() => {
      stream.end(new CtlError('deadline_exceeded', 'the deadline of the call has passed'));
    }, limit).unref();
    stream.onClose(() => clearTimeout(timer));
  }

  ports(): number[] {
    return this.#listening.map(({ server }) => {
      const address = server.address();
      return typeof address === 'object' && address !== null ? address.port : 0;
    });
  }

  async drain(): Promise<void> {
    this.#draining = true;
    const closed = this.#listening.map(({ server }) => new Promise<void>((resolve) => server.close(() => resolve())));
    for (const connection of [...this.#connections]) connection.retire();
    await Promise.all(closed);
  }

  destroy(): void {
    this.#draining = true;
    clearInterval(this.#ticks);
    for (const { server, close } of this.#listening) {
      close();
      server.close();
    }
    for (const connection of [...this.#connections]) connection.destroy();
    for (const socket of this.#sockets) socket.destroy();
  }
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress ?? 'unknown'}:${remotePort ?? 0}`;
}

/** Makes a server; `start()` binds it. */
export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  return new Http2GrpcServer(options);
}
