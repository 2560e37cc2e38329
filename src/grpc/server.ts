/**
 * The gRPC server: accepts connections on one or more listeners, finds the handler of each call, and checks all
 * connections with one timer.
 */
import { createServer, type Server as NetServer, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { CtlError } from '../core/errors.ts';
import { cannotListen, portOf } from '../core/network/listen.ts';
import { readShared, readSharedSecured, type SharedReads } from './buffers/shared-reads.ts';
import { Connection } from './connection.ts';
import { Http2Error } from './frames/frames.ts';
import { TlsListener } from './handshakes/tls-listener.ts';
import { httpError, isGrpc, timeoutMs, trailersOnly } from './headers/headers.ts';
import { networkOf, PerAddressLimiter } from './limits/per-address-limiter.ts';
import { type Task, TurnScheduler } from './limits/turn-scheduler.ts';
import { listenTogether } from './listening.ts';
import type { Stream } from './streams/stream.ts';
import type {
  ConnectionInfo,
  EarlyEnd,
  GrpcListener,
  GrpcServer,
  GrpcServerOptions,
  ListenerTls,
  StreamHandler,
  UnaryMethod,
} from './types.ts';
import { UnaryCalls } from './unary.ts';

/** Interval of the checks of connections, ms: a fraction of the shortest timeout, within these bounds. */
const MIN_TICK_MS = 5;
const MAX_TICK_MS = 1000;
const TICKS_PER_TIMEOUT = 4;

const UNSUPPORTED_MEDIA_TYPE = 415;
const METHOD_NOT_ALLOWED = 405;

/** Longest delay of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;

type Handler = { readonly unary: UnaryMethod } | { readonly stream: StreamHandler };

interface Listening {
  /** All servers of one address. */
  readonly servers: readonly NetServer[];
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
  readonly #limiter: PerAddressLimiter;
  readonly #listening: Listening[] = [];
  /** Includes sockets that have not completed their handshake. */
  readonly #sockets = new Set<Socket>();
  readonly #connections = new Set<Connection>();
  readonly #scheduler: TurnScheduler;
  readonly #ticks: NodeJS.Timeout;
  #draining = false;
  /** Settles when all connections have ended. Undefined while the server listens. */
  #closed: Promise<unknown> | undefined;

  constructor(options: GrpcServerOptions) {
    this.#options = options;
    this.#handlers = handlersOf(options);
    this.#unary = new UnaryCalls(options, options.observer);
    this.#limiter = new PerAddressLimiter(options.maxConnections);
    this.#scheduler = new TurnScheduler({ now: () => performance.now(), shares: options.shares });
    const { keepaliveIntervalMs, keepaliveTimeoutMs, idleMs, sendTimeoutMs } = options;
    const shortest = Math.min(keepaliveIntervalMs, keepaliveTimeoutMs, idleMs, sendTimeoutMs);
    const every = Math.min(MAX_TICK_MS, Math.max(MIN_TICK_MS, shortest / TICKS_PER_TIMEOUT));
    this.#ticks = setInterval(() => this.#tick(), every).unref();
  }

  /**
   * When the process was busy or stopped for a long time, its timers run first: what clients have sent and read
   * meanwhile is processed before their timeouts are checked.
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

  async #listen({ host, port, tls }: GrpcListener): Promise<void> {
    const secure = tls === undefined ? undefined : this.#secure(tls);
    const make = () =>
      createServer({ noDelay: true, pauseOnConnect: secure === undefined }, (socket) => {
        if (!this.#admit(socket)) return;
        if (secure === undefined) this.#begin(socket);
        else secure.accept(socket);
      });
    try {
      const servers = await listenTogether(make, { host, port });
      this.#listening.push({ servers, close: () => secure?.close() });
      if (this.#draining) for (const server of servers) server.close();
      // A connection could not be accepted, for lack of memory or file descriptors; existing connections continue.
      for (const server of servers)
        server.on('error', (error) => this.#options.observer.internalError(error, 'listener'));
    } catch (error) {
      secure?.close();
      throw cannotListen('gRPC', { host, port }, error);
    }
  }

  /** Begins with a connection in its turn: clients that all connect at once must not block the others. */
  #begin(socket: Socket): void {
    const scheduler = this.#scheduler;
    const task: Task = {
      caller: networkOf(socket.remoteAddress ?? ''),
      proceed: () => {
        this.#connected(readShared(socket), undefined);
        return true;
      },
    };
    socket.once('close', () => scheduler.forget(task));
    scheduler.start(task);
  }

  #secure(tls: ListenerTls): TlsListener {
    return new TlsListener({
      tls,
      scheduler: this.#scheduler,
      shares: this.#options.shares,
      secured: (socket) => this.#connected(readSharedSecured(socket), socket),
      endedEarly: (reason) => this.#endedEarly(reason),
      internalError: (error, socket) => this.#options.observer.internalError(error, peerOf(socket)),
    });
  }

  #endedEarly(reason: EarlyEnd): void {
    if (!this.#draining) this.#options.observer.endedEarly(reason);
  }

  #admit(socket: Socket): boolean {
    const address = socket.remoteAddress ?? '';
    const leave = this.#limiter.enter(address);
    if (leave === undefined || this.#draining) {
      leave?.();
      const message = 'too many connections from this address, or in total (see the open-file limit)';
      if (!this.#draining) this.#options.observer.refused(peerOf(socket), new CtlError('resource_exhausted', message));
      this.#endedEarly('limit');
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
      scheduler: this.#scheduler,
      maxStreams,
      now: () => performance.now(),
      onStream: (stream, method) => this.#call(connection, stream, method),
      onError: (error) => {
        if (error instanceof Http2Error) observer.refused(info.peer, new CtlError('invalid_argument', error.message));
        else observer.internalError(error, info.peer);
      },
      onClose: () => {
        this.#connections.delete(connection);
        if (!connection.begun) this.#endedEarly('no_preface');
      },
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
    if (handler === undefined) answer(trailersOnly(new CtlError('unimplemented', 'unknown method')));
    else if (encoding !== 'identity') {
      const error = new CtlError('unimplemented', 'compressed messages are not supported');
      answer(trailersOnly(error, [{ name: 'grpc-accept-encoding', value: 'identity' }]));
    } else {
      this.#startDeadline(stream);
      if ('unary' in handler) this.#unary.serve(stream, handler.unary);
      else handler.stream(stream);
    }
  }

  /** Ends the call at the deadline that the client has set. */
  #startDeadline(stream: Stream): void {
    const limit = timeoutMs(stream.metadata, stream.id);
    if (limit === undefined || limit > MAX_TIMER_MS) return;
    const timer = setTimeout(() => {
      stream.end(new CtlError('deadline_exceeded', 'the deadline of the call has passed'));
    }, limit).unref();
    stream.onClose(() => clearTimeout(timer));
  }

  ports(): number[] {
    return this.#listening.map(({ servers }) => portOf(servers[0]));
  }

  stopListening(): void {
    this.#draining = true;
    const servers = this.#listening.flatMap((listening) => listening.servers);
    this.#closed ??= Promise.all(
      servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve()))),
    );
    for (const connection of [...this.#connections]) if (connection.isIdle) connection.retire();
  }

  async drain(): Promise<void> {
    this.stopListening();
    for (const connection of [...this.#connections]) connection.retire();
    await this.#closed;
  }

  destroy(): void {
    this.#draining = true;
    clearInterval(this.#ticks);
    for (const { servers, close } of this.#listening) {
      close();
      for (const server of servers) server.close();
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
