/** DNS over TCP (RFC 7766) and over TLS (RFC 7858): accepts connections, within limits. */
import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type SecureContextOptions, type TLSSocket } from 'node:tls';
import { oneLineOf } from '../../core/errors.ts';
import type { FairLimiter } from '../../core/fairness/fair-limiter.ts';
import type { Log } from '../../core/log.ts';
import { listening } from '../../core/network/listen.ts';
import { type ConnectionLimits, serveConnection } from './connection.ts';
import type { Handler } from './handler.ts';

/** Certificates of a server over TLS, which may change while it runs. */
export interface DnsServerTls {
  /** The TLS context for new connections. */
  context(): SecureContextOptions;
  /** Calls `listener` after each change of `context`. Returns a function that stops this. */
  onRenew(listener: () => void): () => void;
  /** Undefined: clients are not asked for a certificate. */
  readonly clients?: DnsClientCertificates | undefined;
}

export interface DnsClientCertificates {
  /** Connections without a certificate are closed. */
  readonly required: boolean;
  /**
   * Verifies the certificate that a client presented and returns its SPIFFE ID; undefined when it presented none.
   * Rejects or throws CtlError for a certificate that is not valid: the connection is closed.
   */
  identify(socket: TLSSocket): Promise<string | undefined> | string | undefined;
}

export interface StreamServer {
  readonly port: number;
  close(): Promise<void>;
}

export interface StreamContext {
  readonly handler: Handler;
  readonly connections: FairLimiter;
  readonly limits: ConnectionLimits;
  readonly log: Log;
}

/** Clients that open many connections at once are accepted at once. */
const BACKLOG = 1024;
const HANDSHAKE_TIMEOUT_MS = 10_000;

/** Rejects with the system's error when the address cannot be bound. */
export async function startStreams(
  host: string,
  port: number,
  tls: DnsServerTls | undefined,
  context: StreamContext,
): Promise<StreamServer> {
  const open = new Set<Socket>();
  const accept = (socket: Socket): boolean => {
    const release = context.connections.enter(socket.remoteAddress ?? '');
    if (release === undefined) {
      context.handler.stats.limited++;
      socket.destroy();
      return false;
    }
    open.add(socket);
    context.handler.stats.connections++;
    socket.on('error', () => socket.destroy());
    socket.once('close', () => {
      release();
      open.delete(socket);
      context.handler.stats.connections--;
    });
    return true;
  };
  const [server, stop] = tls === undefined ? [plainServer(accept, context)] : tlsServer(tls, accept, context);
  const ipv6Only = host.includes(':') && host !== '::';
  const bound = await listening(server, { host, port, backlog: BACKLOG, ipv6Only });
  server.on('error', (error) => context.log.warn(`DNS over ${tls === undefined ? 'TCP' : 'TLS'}: ${error.message}`));
  return {
    port: bound,
    close: async () => {
      stop?.();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}

function serve(socket: Socket, protocol: 'tcp' | 'tls', identity: string | undefined, context: StreamContext): void {
  const { remoteAddress: address, remotePort: port } = socket;
  // A connection that is already closed has no address.
  if (address === undefined || port === undefined) socket.destroy();
  else serveConnection(socket, { protocol, address, port, identity }, context.handler, context.limits);
}

function plainServer(accept: (socket: Socket) => boolean, context: StreamContext): Server {
  return createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    if (accept(socket)) serve(socket, 'tcp', undefined, context);
  });
}

function tlsServer(
  tls: DnsServerTls,
  accept: (socket: Socket) => boolean,
  context: StreamContext,
): [server: Server, stop: () => void] {
  const { clients } = tls;
  const server = createTlsServer({
    minVersion: 'TLSv1.2',
    ...tls.context(),
    allowHalfOpen: true,
    noDelay: true,
    // RFC 7858 section 3.2; a client that speaks another protocol is refused in the handshake.
    ALPNProtocols: ['dot'],
    requestCert: clients !== undefined,
    rejectUnauthorized: false,
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
  });
  // Counted from the beginning: a client that never ends its handshake has a connection too.
  server.prependListener('connection', (socket: Socket) => void accept(socket));
  server.on('tlsClientError', (error) => context.log.debug(`a TLS handshake failed: ${error.message}`));
  server.on('secureConnection', (socket) => {
    const failed = (error: unknown) => {
      context.log.debug(`a DNS client was refused: ${oneLineOf(error)}`);
      socket.destroy();
    };
    const identified = (identity: string | undefined) => {
      if (identity === undefined && clients?.required === true) socket.destroy();
      else serve(socket, 'tls', identity, context);
    };
    socket.on('error', () => socket.destroy());
    Promise.resolve()
      .then(() => clients?.identify(socket))
      .then(identified)
      .catch(failed);
  });
  return [server, tls.onRenew(() => server.setSecureContext({ minVersion: 'TLSv1.2', ...tls.context() }))];
}
