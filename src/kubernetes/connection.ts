/**
 * The way to one API server. All requests share one HTTP/2 connection; another is opened beside it only when the
 * server's limit of concurrent streams is reached, or when the server is about to close the first (GOAWAY).
 *
 * While the server is unavailable, one connection is tried about once a second, for all requests together, so that a
 * server that is back is used within a second. For each replica, the server then handles one TLS handshake, and one
 * connection attempt a second before that. Watches resume from their last versions without a new list.
 */
import type { ClientHttp2Stream, IncomingHttpHeaders } from 'node:http2';
import { type Clock, sleep, type Timer } from '../core/clock.ts';
import { CtlError } from '../core/errors.ts';
import type { ClusterAccess } from './access.ts';
import { ConnectionError } from './api-error.ts';
import { PROBE_JITTER, PROBE_MS, Retries } from './retries.ts';
import { Session } from './session.ts';

/**
 * The maximum number of simultaneous connection attempts: packets of the first may have been lost while the server was
 * unavailable.
 */
const MAX_ATTEMPTS = 10;
/** Interval of checks for a renewed client certificate while requests are refused, ms. */
const CHECK_INTERVAL_MS = 1000;
const HTTP_UNAUTHORIZED = 401;
/** The longest timeout of a timer in Node.js, ms: 24 days. */
const FOREVER_MS = 2 ** 31 - 1;
/** The maximum number of connections; when all are full, further requests wait on one of them. */
const MAX_SESSIONS = 32;

export interface ConnectionOptions {
  readonly access: ClusterAccess;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Sent with each request. */
  readonly userAgent: string;
}

export interface ConnectionObserver {
  /** The API server cannot be reached. Called once for each reason. */
  lost(reason: string): void;
  /** Called when the server is reached after that. */
  reached(): void;
}

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path and query. */
  readonly path: string;
  readonly accept: string;
  /** Whether the response may be compressed. */
  readonly gzip?: boolean;
  readonly contentType?: string;
  readonly body?: string;
  /** Time limit for the headers of the response, ms, including the time to connect. */
  readonly timeoutMs: number;
  /** Aborts the request and the body of its response. */
  readonly signal?: AbortSignal;
}

export interface ApiResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly stream: ClientHttp2Stream;
  /** Whether the connection as a whole is lost: asked when the stream has broken. */
  isLost(): boolean;
}

export class Connection {
  /** Decides when failed lists and watches are retried. */
  readonly retries: Retries;
  readonly #options: ConnectionOptions;
  #sessions: Session[] = [];
  #connecting: Promise<void> | undefined;
  /** Consecutive failed attempts to connect. */
  #failures = 0;
  #lostReason: string | undefined;
  /** When certificates are compared again after a refused request. */
  #checkAfter = Number.NEGATIVE_INFINITY;
  readonly #observers = new Set<ConnectionObserver>();
  readonly #ending = new AbortController();
  /** Requests that wait until the server is reached. */
  readonly #waiting = new Set<AbortController>();
  #probing = false;
  #closed = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.retries = new Retries(options);
  }

  get clock(): Clock {
    return this.#options.clock;
  }

  /** 0 ≤ x < 1. */
  get random(): () => number {
    return this.#options.random;
  }

  /** Host and port, for messages. */
  get server(): string {
    return this.#options.access.server.origin;
  }

  /** Notifies an observer, at once when the server is lost already. Returns the function that ends it. */
  observe(observer: ConnectionObserver): () => void {
    this.#observers.add(observer);
    if (this.#lostReason !== undefined) observer.lost(this.#lostReason);
    return () => this.#observers.delete(observer);
  }

  /**
   * Resolves with the headers of the answer. Rejects with ConnectionError, or CtlError where credentials cannot be
   * read.
   */
  async open(request: ApiRequest): Promise<ApiResponse> {
    const { clock } = this.#options;
    const outcome = Promise.withResolvers<ApiResponse>();
    const { signal, timeoutMs } = request;
    let stream: ClientHttp2Stream | undefined;
    let settled = false;
    const fail = (error: Error): void => {
      settled = true;
      stream?.destroy();
      outcome.reject(error);
    };
    const timer = clock.setTimer(timeoutMs, () => {
      // Without a stream, the request still waits for the connection.
      fail(new ConnectionError(`no response within ${Math.round(timeoutMs / 1000)} s`, stream === undefined));
    });
    const onAbort = (): void => fail(new ConnectionError('the request was aborted', false));
    if (signal?.aborted === true) onAbort();
    signal?.addEventListener('abort', onAbort, { once: true });
    const run = async (): Promise<void> => {
      const token = await this.#options.access.token();
      const session = await this.#reserved();
      if (settled) return session.release();
      stream = this.#send(session, request, token);
      stream.once('response', (headers) => {
        this.#reached();
        if (stream === undefined) return;
        const { ':status': status = 0 } = headers;
        if (status === HTTP_UNAUTHORIZED) this.#refused();
        outcome.resolve({ status, headers, stream, isLost: () => !session.isOpen });
      });
      stream.once('close', () => signal?.removeEventListener('abort', onAbort));
      stream.once('close', () => fail(brokenStream(session, stream)));
      // The end of the stream reports the reason.
      stream.on('error', () => {});
    };
    run().catch(fail);
    try {
      return await outcome.promise;
    } catch (error) {
      signal?.removeEventListener('abort', onAbort);
      throw error;
    } finally {
      timer.cancel();
    }
  }

  /** Resolves when a server that was lost is reached again, or `signal` aborts; tries to connect until then. */
  async reached(signal: AbortSignal): Promise<void> {
    const back = new AbortController();
    this.#waiting.add(back);
    void this.#probe();
    await sleep(this.clock, FOREVER_MS, AbortSignal.any([signal, back.signal, this.#ending.signal]));
    this.#waiting.delete(back);
  }

  /** Aborts all requests; later ones fail. */
  close(): void {
    this.#closed = true;
    this.#ending.abort();
    for (const session of this.#sessions) session.destroy();
    this.#sessions = [];
  }

  #send(session: Session, request: ApiRequest, token: string | undefined): ClientHttp2Stream {
    const { access, userAgent } = this.#options;
    const { method, accept, contentType, body, gzip } = request;
    const base = access.server.pathname.replace(/\/$/, '');
    try {
      const stream = session.request(
        {
          ':method': method,
          ':path': `${base}${request.path}`,
          accept,
          ...(gzip === true ? { 'accept-encoding': 'gzip' } : {}),
          'user-agent': userAgent,
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...(contentType === undefined ? {} : { 'content-type': contentType }),
        },
        body !== undefined,
      );
      if (body !== undefined) stream.end(body);
      return stream;
    } catch (error) {
      session.release();
      throw new ConnectionError(error instanceof Error ? error.message : String(error), true, error);
    }
  }

  /** A connection that takes another request, which it has counted already. */
  async #reserved(): Promise<Session> {
    for (;;) {
      if (this.#closed) throw new ConnectionError('the connection was closed', false);
      const open = this.#sessions.filter(({ isOpen }) => isOpen);
      const session = open.find(({ isFree }) => isFree) ?? (open.length < MAX_SESSIONS ? undefined : leastActive(open));
      if (session !== undefined) {
        session.reserve();
        return session;
      }
      this.#connecting ??= this.#connect().finally(() => {
        this.#connecting = undefined;
      });
      await this.#connecting;
    }
  }

  /** Tries to connect until it succeeds or no request waits any more. */
  async #probe(): Promise<void> {
    if (this.#probing) return;
    this.#probing = true;
    while (this.#waiting.size > 0 && !this.#closed) {
      try {
        const session = await this.#reserved();
        session.release();
        for (const back of this.#waiting) back.abort();
        this.#waiting.clear();
      } catch {
        // The observers have been told.
      }
    }
    this.#probing = false;
  }

  async #connect(): Promise<void> {
    if (this.#failures > 0) await this.#pause();
    if (this.#closed) return;
    try {
      const session = await this.#firstSession();
      if (session.isOpen) this.#sessions.push(session);
    } catch (error) {
      this.#failures++;
      this.#lost(error instanceof CtlError ? error.oneLine() : String(error));
      throw error;
    }
  }

  /**
   * Connects while the server is unavailable. Attempts overlap: a new one starts while earlier ones are pending, and
   * the first that succeeds is used.
   */
  #firstSession(): Promise<Session> {
    const { access, clock } = this.#options;
    const outcome = Promise.withResolvers<Session>();
    const onClosed = (closed: Session): void => this.#sessionClosed(closed);
    const isAway = this.#failures > 0;
    let [pending, isSettled] = [0, false];
    let timer: Timer | undefined;
    const settle = (): void => {
      isSettled = true;
      timer?.cancel();
    };
    const attempt = async (): Promise<void> => {
      pending++;
      if (isAway && pending < MAX_ATTEMPTS) timer = clock.setTimer(this.#interval(), () => void attempt());
      try {
        const session = await Session.connect(access, { clock, signal: this.#ending.signal, onClosed });
        if (isSettled) session.destroy();
        else outcome.resolve(session);
        settle();
      } catch (error) {
        pending--;
        if (pending > 0) return;
        settle();
        outcome.reject(error);
      }
    };
    void attempt();
    return outcome.promise;
  }

  /** Interval between two attempts to connect, ms. */
  #interval(): number {
    return PROBE_MS * (1 - PROBE_JITTER * this.#options.random());
  }

  /** The server rejected the credentials (HTTP 401): renewed credentials, if any, are used from now on. */
  #refused(): void {
    const { access, clock } = this.#options;
    access.rejected?.();
    if (clock.now() < this.#checkAfter) return;
    this.#checkAfter = clock.now() + CHECK_INTERVAL_MS;
    void this.#retireOldCertificates();
  }

  /** A connection uses the certificate with which it was opened until it is closed. */
  async #retireOldCertificates(): Promise<void> {
    try {
      const material = await this.#options.access.tls();
      for (const session of this.#sessions) if (!session.shows(material)) session.retire();
    } catch {
      // The next attempt to connect reports the failure.
    }
  }

  #pause(): Promise<void> {
    return sleep(this.#options.clock, this.#interval(), this.#ending.signal);
  }

  #sessionClosed(session: Session): void {
    const known = this.#sessions.includes(session);
    this.#sessions = this.#sessions.filter((each) => each !== session);
    if (this.#closed || !known) return;
    // A server that closes every connection at once must not be asked without a pause.
    this.#failures = session.wasOfUse ? 1 : this.#failures + 1;
    // A load balancer without an available server closes connections like this.
    if (!session.wasOfUse && this.#failures > 1) this.#lost(session.reason);
  }

  #lost(reason: string): void {
    if (this.#lostReason === reason || this.#closed) return;
    this.#lostReason = reason;
    for (const observer of this.#observers) observer.lost(reason);
  }

  #reached(): void {
    this.#failures = 0;
    if (this.#lostReason === undefined) return;
    this.#lostReason = undefined;
    this.retries.succeeded();
    for (const observer of this.#observers) observer.reached();
  }
}

function leastActive(sessions: readonly Session[]): Session | undefined {
  return [...sessions].sort((a, b) => a.active - b.active)[0];
}

function brokenStream(session: Session, stream: ClientHttp2Stream | undefined): ConnectionError {
  if (!session.isOpen) return new ConnectionError(session.reason, true);
  return new ConnectionError(`the server ended the stream (HTTP/2 error code ${stream?.rstCode ?? 0})`, false);
}
