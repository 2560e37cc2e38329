/**
 * A gRPC server for programs on the same machine (Envoy, the application): bidirectional streams of bytes on a Unix
 * domain socket or a TCP address. It listens at once, and loads @grpc/grpc-js at the first connection.
 */
import { createServer, type Socket } from 'node:net';
import type { Server, ServerDuplexStream } from '@grpc/grpc-js';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { statusOf } from '../../core/grpc-status.ts';
import type { Log } from '../../core/log.ts';
import { listen, portOf } from '../../core/network/listen.ts';
import { listenOnSocket } from './listen.ts';
import { asBuffer, loadGrpc } from './load.ts';

/**
 * A stream that a client has opened. `write` returns false when the client reads slowly, `pause` stops reading from it;
 * both as in node:stream. `cancelled` is emitted when the client or the connection has ended it; `close` always. End it
 * with `end()` (status OK) or {@link endWithError}.
 */
export type ServerStream = ServerDuplexStream<Buffer, Uint8Array>;

export interface GrpcServerLimits {
  /** Further connections are closed. */
  readonly connections: number;
  /**
   * Maximum number of streams on all connections, of methods without a limit of their own; further ones end with
   * RESOURCE_EXHAUSTED.
   */
  readonly streams: number;
  /** A longer message from a client ends its stream with RESOURCE_EXHAUSTED. */
  readonly messageBytes: number;
}

/** A handler of streams, whose number {@link GrpcServerLimits.streams} limits, or one with a limit of its own. */
export type ServedMethod =
  | ((stream: ServerStream) => void)
  | { readonly serve: (stream: ServerStream) => void; readonly streams: number };

export interface GrpcServerOptions {
  readonly address: { readonly path: string } | { readonly host: string; readonly port: number };
  /** Mode of the socket at a path; 0600 by default. */
  readonly socketMode?: number;
  /** Keyed by `/package.Service/Method`. Other methods end with UNIMPLEMENTED. */
  readonly methods: Readonly<Record<string, ServedMethod>>;
  readonly limits: GrpcServerLimits;
  /** How often connections are checked by a PING; undefined for never. */
  readonly keepalive?: {
    readonly intervalMs: number;
    /** Called when a connection has been closed because its peer did not answer. */
    readonly onStale: () => void;
  };
  readonly log: Log;
}

export interface GrpcServer {
  /** The TCP port; 0 for a Unix domain socket. */
  readonly port: number;
  /** Closes all connections at once. */
  close(): Promise<void>;
}

/** A peer on the same machine that does not answer a PING within this time is stopped or dead. */
const MAX_PING_TIMEOUT_MS = 5_000;
/** Memory of a connection for headers and for data that is not read yet, MB. */
const SESSION_MEMORY_MB = 16;
/** Streams of a connection above the limit, for streams about to end with RESOURCE_EXHAUSTED, and half-closed ones. */
const SPARE_STREAMS = 16;

/** Resolves when the server listens. Rejects with CtlError when the address is in use or unusable. */
export async function startGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const { address, socketMode, limits, keepalive, log } = options;
  const sockets = new Set<Socket>();
  let injector: Promise<(socket: Socket) => void> | undefined;
  let closed = false;

  const listener = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => {
    let inUse = false;
    sockets.add(socket);
    socket.on('error', (error) => log.debug(`a gRPC connection ended: ${oneLineOf(error)}`));
    socket.on('close', () => {
      sockets.delete(socket);
      // Neither its peer nor a protocol error nor this server has closed it, so its PING was not answered.
      const byServer = closed || socket.readableEnded || socket.errored != null;
      if (inUse && !byServer) keepalive?.onStale();
    });
    injector ??= loadInjector(options);
    injector.then(
      (inject) => {
        if (socket.destroyed) return;
        inUse = true;
        inject(socket);
        // From now on, the HTTP/2 session reads.
        socket.resume();
      },
      (error: unknown) => {
        log.error(`gRPC cannot be served: ${oneLineOf(error)}`);
        socket.destroy();
      },
    );
  });
  listener.maxConnections = limits.connections;
  const name = 'the gRPC server';
  if ('path' in address) {
    await listenOnSocket(listener, address.path, socketMode);
    listener.on('error', (error) => log.error(`${name}: ${error.message}`));
  } else await listen(listener, name, address, (line) => log.error(line));

  return {
    port: portOf(listener),
    close: () =>
      new Promise((resolve) => {
        closed = true;
        // Node.js removes the file of a Unix domain socket.
        listener.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

/** Loads grpc-js. Resolves with the function that serves a connection. */
async function loadInjector({ methods, limits, keepalive }: GrpcServerOptions): Promise<(socket: Socket) => void> {
  const { Metadata, Server, ServerCredentials } = await loadGrpc();
  const server: Server = new Server({
    'grpc.enable_channelz': 0,
    'grpc.max_receive_message_length': limits.messageBytes,
    'grpc.max_send_message_length': -1,
    // More than the limit of all streams, so that further ones are answered instead of waiting in the client.
    'grpc.max_concurrent_streams': limits.streams + streamsOf(methods) + SPARE_STREAMS,
    'grpc-node.max_session_memory': SESSION_MEMORY_MB,
    ...(keepalive === undefined
      ? {}
      : {
          'grpc.keepalive_time_ms': keepalive.intervalMs,
          'grpc.keepalive_timeout_ms': Math.min(keepalive.intervalMs, MAX_PING_TIMEOUT_MS),
        }),
  });
  const shared = new Set<ServerStream>();
  for (const [path, method] of Object.entries(methods)) {
    const isShared = typeof method === 'function';
    const serve = isShared ? method : method.serve;
    const [open, most] = isShared ? [shared, limits.streams] : [new Set<ServerStream>(), method.streams];
    const handle = (stream: ServerStream): void => {
      if (open.size >= most) {
        endWithError(stream, new CtlError('resource_exhausted', `more than ${most} streams`));
        return;
      }
      open.add(stream);
      // Tells the client that its stream is accepted; the first message may take a long time.
      stream.sendMetadata(new Metadata());
      stream.on('close', () => open.delete(stream));
      serve(stream);
    };
    server.register(path, handle, asBuffer, asBuffer, 'bidi');
  }
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  return (socket) => injector.injectConnection(socket);
}

/** The streams of the methods that have a limit of their own. */
function streamsOf(methods: GrpcServerOptions['methods']): number {
  return Object.values(methods).reduce((sum, each) => sum + (typeof each === 'function' ? 0 : each.streams), 0);
}

/** Ends a stream with the status of an error, after the messages that have been written. */
export function endWithError(stream: ServerStream, error: CtlError): void {
  if (stream.writableEnded || stream.destroyed) return;
  const { code, details } = statusOf(error);
  // grpc-js encodes it as a URI, which fails for a lone surrogate.
  stream.emit('error', { code, details: details.toWellFormed() });
}
