/**
 * TLS for the connections of one listener: when their handshakes begin, and what happens to handshakes that fail.
 * `node:tls` performs the handshakes.
 */
import type { Socket } from 'node:net';
import { createServer, type TLSSocket, type Server as TlsServer } from 'node:tls';
import type { TimeShares } from '../../core/fairness/time-shares.ts';
import { networkOf } from '../limits/per-address-limiter.ts';
import type { Task, TurnScheduler } from '../limits/turn-scheduler.ts';
import type { EarlyEnd, ListenerTls } from '../types.ts';
import { FirstBytes } from './first-bytes.ts';
import { type Handshake, HandshakeSlots } from './handshake-slots.ts';

/** Time that a handshake takes with a client's certificate (P-256), ms. */
export const HANDSHAKE_MS = 1.5;

export interface TlsListenerOptions {
  readonly tls: ListenerTls;
  readonly scheduler: TurnScheduler;
  readonly shares: TimeShares | undefined;
  /** The handshake has succeeded. */
  readonly secured: (socket: TLSSocket) => void;
  /** A connection has ended before its handshake succeeded. */
  readonly endedEarly: (reason: EarlyEnd) => void;
  readonly internalError: (error: unknown, socket: TLSSocket) => void;
}

/** A connection without a complete handshake. */
interface Opening {
  readonly handshake: Handshake;
  /** Why the server ends the connection; undefined unless the server ends it. */
  reason: EarlyEnd | undefined;
}

export class TlsListener {
  readonly #options: TlsListenerOptions;
  readonly #server: TlsServer;
  readonly #slots: HandshakeSlots;
  readonly #opening = new Map<string, Opening>();
  readonly #stopRenewing: () => void;

  constructor(options: TlsListenerOptions) {
    const { tls, shares, scheduler } = options;
    this.#options = options;
    this.#slots = new HandshakeSlots({ shares, now: scheduler.now });
    const server = createServer({ ...tls.options, ...tls.context(), ALPNProtocols: ['h2'] });
    this.#server = server;
    server.on('secureConnection', (socket) => this.#finished(socket));
    if (tls.resume !== undefined) server.on('resumeSession', (id, done) => done(null, tls.resume?.(id) ?? null));
    // A failed handshake affects that client only.
    server.on('tlsClientError', (error, socket) => this.#failed(error, socket));
    this.#stopRenewing = tls.onRenew(() => server.setSecureContext(tls.context()));
  }

  /** Begins the handshake of an accepted socket when its client has sent its first record and its turn has come. */
  accept(socket: Socket): void {
    const { scheduler, tls } = this.#options;
    const key = keyOf(socket);
    const caller = networkOf(socket.remoteAddress ?? '');
    const task: Task = {
      caller,
      proceed: () => {
        scheduler.spend(caller, HANDSHAKE_MS);
        first.putBack();
        // Node's documented way to pass a connection to a TLS server that has not accepted it itself.
        this.#server.emit('connection', socket);
        this.#slots.awaitClient(opening.handshake);
        return true;
      },
    };
    const opening: Opening = { handshake: { caller, begin: () => scheduler.start(task) }, reason: undefined };
    const first = new FirstBytes(socket, {
      arrived: () => {
        clearTimeout(silent);
        this.#slots.enter(opening.handshake);
      },
      invalid: () => {
        opening.reason = 'handshake';
      },
    });
    const silent = setTimeout(() => {
      // Bytes that arrived while the process was busy are read first.
      setImmediate(() => {
        if (first.complete || socket.destroyed) return;
        opening.reason = 'timeout';
        socket.destroy();
      });
    }, tls.options.handshakeTimeout).unref();
    this.#opening.set(key, opening);
    socket.once('close', () => {
      clearTimeout(silent);
      scheduler.forget(task);
      this.#slots.leave(opening.handshake);
      // Another connection of the client may have the same port by now.
      if (this.#opening.get(key) !== opening) return;
      this.#opening.delete(key);
      this.#options.endedEarly(opening.reason ?? 'client');
    });
  }

  #finished(socket: TLSSocket): void {
    const opening = this.#opening.get(keyOf(socket));
    if (opening !== undefined) this.#slots.leave(opening.handshake);
    if (socket.alpnProtocol === 'h2' && this.#isAllowed(socket)) {
      this.#opening.delete(keyOf(socket));
      this.#options.secured(socket);
      return;
    }
    if (opening !== undefined) opening.reason = 'refused';
    socket.destroy();
  }

  /** Reads the client's certificate for the first time: an error only ends this connection. */
  #isAllowed(socket: TLSSocket): boolean {
    try {
      return this.#options.tls.secured?.(socket) !== false;
    } catch (error) {
      this.#options.internalError(error, socket);
      return false;
    }
  }

  #failed(error: Error & { readonly code?: string }, socket: TLSSocket): void {
    const opening = this.#opening.get(keyOf(socket));
    if (opening !== undefined) opening.reason = reasonOf(error.code);
    socket.destroy();
  }

  close(): void {
    this.#stopRenewing();
  }
}

function reasonOf(code: string | undefined): EarlyEnd | undefined {
  if (code === 'ERR_TLS_HANDSHAKE_TIMEOUT') return 'timeout';
  return code === 'ECONNRESET' ? undefined : 'handshake';
}

/** Identifies a connection, even when a TLS socket has taken over its handle. */
function keyOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}
