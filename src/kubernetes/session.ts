/** One HTTP/2 connection to an API server: its windows, its PINGs, and whether it takes further requests. */
import http2, { type ClientHttp2Session, type ClientHttp2Stream, type OutgoingHttpHeaders } from 'node:http2';
import type { Clock, Timer } from '../core/clock.ts';
import { CtlError } from '../core/errors.ts';
import type { ClusterAccess, TlsMaterial } from './access.ts';
import { ConnectionError } from './api-error.ts';

/** Time for TCP, TLS and the server's SETTINGS frame together, ms. */
const CONNECT_TIMEOUT_MS = 10_000;
/** Time between PINGs, ms. A connection whose PING is not answered before the next PING is closed. */
const PING_INTERVAL_MS = 20_000;
/** Flow control windows, bytes: large lists should not wait for WINDOW_UPDATE frames. */
const STREAM_WINDOW = 1024 * 1024;
const CONNECTION_WINDOW = 8 * 1024 * 1024;
/** The minimum that RFC 9113, 6.5.2 recommends; used if the server sets no limit of concurrent streams. */
const DEFAULT_MAX_STREAMS = 100;

export interface SessionOptions {
  readonly clock: Clock;
  /** Aborts the connection, even while it is being established. */
  readonly signal: AbortSignal;
  readonly onClosed: (session: Session) => void;
}

export class Session {
  readonly #session: ClientHttp2Session;
  readonly #material: TlsMaterial;
  /** Requests in progress and those that are about to be sent. */
  #active = 0;
  #answered = false;
  #lastError: Error | undefined;
  #pingTimer: Timer | undefined;
  #waiting = false;

  private constructor(session: ClientHttp2Session, material: TlsMaterial) {
    this.#session = session;
    this.#material = material;
  }

  /** Rejects with ConnectionError, or with CtlError where credentials cannot be read. */
  static async connect(access: ClusterAccess, options: SessionOptions): Promise<Session> {
    const { clock, signal, onClosed } = options;
    const material = await access.tls();
    if (signal.aborted) throw new ConnectionError('the connection was closed', false);
    const { hostname } = access.server;
    const session = http2.connect(access.server.origin, {
      ...material,
      ...(access.serverName === undefined ? {} : { servername: access.serverName }),
      ALPNProtocols: ['h2'],
      minVersion: 'TLSv1.2',
      settings: { enablePush: false, initialWindowSize: STREAM_WINDOW },
    });
    const self = new Session(session, material);
    const ready = Promise.withResolvers<void>();
    const timer = clock.setTimer(CONNECT_TIMEOUT_MS, () => {
      session.destroy(new CtlError('unavailable', `no HTTP/2 connection within ${CONNECT_TIMEOUT_MS / 1000} s`));
    });
    const onAbort = (): void => session.destroy();
    signal.addEventListener('abort', onAbort, { once: true });
    session.once('remoteSettings', () => ready.resolve());
    session.on('error', (error) => {
      self.#lastError = error;
    });
    session.once('close', () => {
      timer.cancel();
      signal.removeEventListener('abort', onAbort);
      self.#pingTimer?.cancel();
      ready.reject(new ConnectionError(reasonOf(self.#lastError, hostname), true, self.#lastError));
      onClosed(self);
    });
    await ready.promise;
    timer.cancel();
    session.setLocalWindowSize(CONNECTION_WINDOW);
    self.#ping(clock);
    return self;
  }

  /**
   * Whether the connection can take another request. After a GOAWAY frame, Node.js closes the session by itself. If the
   * server currently allows no streams, one request waits on the connection.
   */
  get isFree(): boolean {
    const limit = this.#session.remoteSettings?.maxConcurrentStreams ?? DEFAULT_MAX_STREAMS;
    return this.isOpen && this.#active < Math.max(limit, 1);
  }

  get isOpen(): boolean {
    return !this.#session.closed && !this.#session.destroyed;
  }

  /** Whether the server has responded to a request on this connection. */
  get wasOfUse(): boolean {
    return this.#answered;
  }

  get active(): number {
    return this.#active;
  }

  /** Counts a request that is about to be made, until `release` or the end of its stream. */
  reserve(): void {
    this.#active++;
  }

  release(): void {
    this.#active--;
  }

  /** Makes a request that was reserved. Throws Error when the session was closed meanwhile. */
  request(headers: OutgoingHttpHeaders, hasBody: boolean): ClientHttp2Stream {
    const stream = this.#session.request(headers, { endStream: !hasBody });
    stream.once('response', () => {
      this.#answered = true;
    });
    stream.once('close', () => this.release());
    return stream;
  }

  /** Why the connection ended, for messages. */
  get reason(): string {
    return this.#lastError === undefined ? 'the server closed the connection' : reasonOf(this.#lastError, '');
  }

  /** Whether this is the client certificate with which the connection was made. */
  shows({ cert, key }: TlsMaterial): boolean {
    return cert === this.#material.cert && key === this.#material.key;
  }

  /** Takes no further requests, and closes after those in progress. */
  retire(): void {
    this.#session.close();
  }

  destroy(error?: Error): void {
    this.#session.destroy(error);
  }

  #ping(clock: Clock): void {
    this.#pingTimer = clock.setTimer(PING_INTERVAL_MS, () => {
      // If the whole process was suspended, a response may be waiting in the socket.
      if (this.#waiting) setImmediate(() => this.#giveUp());
      // Also after GOAWAY, while watches are still open.
      else if (!this.#session.destroyed) {
        this.#waiting = true;
        this.#session.ping((error) => {
          if (error === null) this.#waiting = false;
        });
      }
      this.#ping(clock);
    });
  }

  #giveUp(): void {
    if (!this.#waiting || this.#session.destroyed) return;
    this.#session.destroy(new CtlError('unavailable', `no response to a PING within ${PING_INTERVAL_MS / 1000} s`));
  }
}

/** The reason for a failed connection, in one line for operators. */
function reasonOf(error: Error | undefined, host: string): string {
  if (error === undefined) return 'the server closed the connection';
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return `the server's certificate is not for ${host}`;
  const message = error.message.split('\n')[0] ?? '';
  return message === '' ? code || error.name : message;
}
