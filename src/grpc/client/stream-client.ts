/**
 * A client of one gRPC stream, with a connection of its own. Messages are bytes: callers encode and decode them. It
 * exists beside @grpc/grpc-js, which the agent uses, because of the windows of flow control
 * (docs/decisions/0013-config-stream-client.md).
 * Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
 */
import http2, { type ClientHttp2Session, type ClientHttp2Stream, type IncomingHttpHeaders } from 'node:http2';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls, type PeerCertificate } from 'node:tls';
import { CtlError, type CtlErrorCode, oneLineOf } from '../../core/errors.ts';
import { hostPort } from '../../core/network/listen.ts';
import { prefixed } from '../messages.ts';
import { CallMessages } from '../streams/call-messages.ts';

export interface StreamTls {
  /** PEM certificates that verify the server's; undefined: those of the system. */
  readonly roots: string | undefined;
  /** The client's certificate and key, PEM; undefined: none is shown. */
  readonly client: { readonly chain: string; readonly key: string } | undefined;
  /** The name for SNI, and that the server's certificate must have unless `checkServer` decides. */
  readonly serverName: string;
  /** Returns why the certificate of the server is not accepted; undefined: it is. */
  readonly checkServer?: (certificate: PeerCertificate) => Error | undefined;
}

export interface StreamTarget {
  readonly host: string;
  readonly port: number;
  /** Undefined for plain text. */
  readonly tls: StreamTls | undefined;
  /** `/package.Service/Method`. */
  readonly path: string;
}

export interface StreamClientOptions {
  /** A longer message ends the stream. */
  readonly maxMessageBytes: number;
  /** Windows of flow control of HTTP/2, bytes. */
  readonly streamWindow: number;
  readonly connectionWindow: number;
  /** Until the connection is ready, with TLS, ms. */
  readonly connectTimeoutMs: number;
  /** How long nothing may arrive before a ping is sent, and the wait for the answer, ms. */
  readonly keepaliveMs: number;
  readonly keepaliveTimeoutMs: number;
}

export interface StreamHandler {
  /** The connection is ready and the stream is open: messages may be sent. */
  opened(): void;
  /** A message. What it throws ends the stream. */
  message(bytes: Buffer): void;
  /** The server ends the connection because of the pings; `ended` follows. */
  pingedTooOften?(): void;
  /** Called once, unless the stream was closed by `close`. An `ok` status of the server is an error, too. */
  ended(error: CtlError): void;
}

export interface ClientStream {
  /**
   * Sends a message; nothing once the stream has ended. The stream ends with `resource_exhausted` when the server does
   * not read: when 1 MiB waits besides what was sent while the stream was opened.
   */
  send(message: Uint8Array): void;
  /**
   * Stops or continues to read: the windows of flow control limit what the server sends meanwhile. A few messages that
   * have arrived are still passed on.
   */
  read(enabled: boolean): void;
  close(): void;
}

/** Names of the status codes that servers send; others are reported as `unavailable`. */
const CODES: Readonly<Record<string, CtlErrorCode>> = {
  3: 'invalid_argument',
  5: 'not_found',
  7: 'permission_denied',
  8: 'resource_exhausted',
  9: 'failed_precondition',
  12: 'unimplemented',
  13: 'internal',
  16: 'unauthenticated',
};

const MAX_STATUS_CHARS = 500;
/** The longest delay of a timer, ms; Node makes 1 ms of a longer one. */
const MAX_DELAY_MS = 2 ** 31 - 1;
/** Answers that may wait because the server does not read them, bytes: an answer is short. */
const MAX_UNSENT_BYTES = 1024 * 1024;
/** RFC 9113 section 6.9.1: the window of a connection begins with this size, and cannot be set by SETTINGS. */
const INITIAL_WINDOW = 65_535;

/** Connects and opens the stream. */
export function openClientStream(
  target: StreamTarget,
  options: StreamClientOptions,
  handler: StreamHandler,
): ClientStream {
  return new Http2Stream(target, options, handler);
}

class Http2Stream implements ClientStream {
  readonly #name: string;
  readonly #options: StreamClientOptions;
  readonly #handler: StreamHandler;
  readonly #socket: Socket;
  readonly #session: ClientHttp2Session;
  readonly #connecting: NodeJS.Timeout;
  readonly #messages: CallMessages;
  #stream: ClientHttp2Stream | undefined;
  /** The most bytes that may wait to be sent. What is sent when the stream opens is the choice of the caller. */
  #maxUnsent = Number.POSITIVE_INFINITY;
  #keepalive: NodeJS.Timeout | undefined;
  /** Whether bytes have arrived since the last look. */
  #isActive = false;
  /** The status in the trailers, or in the headers of a response without messages. */
  #status: CtlError | undefined;
  #closed = false;

  constructor(target: StreamTarget, options: StreamClientOptions, handler: StreamHandler) {
    this.#name = hostPort(target);
    this.#options = options;
    this.#handler = handler;
    this.#messages = new CallMessages(options.maxMessageBytes, (bytes) => handler.message(bytes));
    this.#socket = connect(target);
    this.#socket.once('error', (error) => this.#unreachable(error));
    const settings = { initialWindowSize: options.streamWindow, enablePush: false };
    const authority = `${target.tls === undefined ? 'http' : 'https'}://${this.#name}`;
    this.#session = http2.connect(authority, { createConnection: () => this.#socket, settings });
    this.#session.on('error', (error) => this.#unreachable(error));
    this.#session.on('close', () => this.#unreachable(undefined));
    // A server that stops: what it has sent is complete, and the stream is opened anew elsewhere.
    this.#session.on('goaway', (code) => {
      if (code === http2.constants.NGHTTP2_ENHANCE_YOUR_CALM) handler.pingedTooOften?.();
      this.#end(new CtlError('unavailable', `${this.#name} closes the connection`));
    });
    this.#session.once('remoteSettings', () => this.#open(target.path));
    this.#connecting = setTimeout(() => {
      const message = `${this.#name} did not answer within ${options.connectTimeoutMs} ms`;
      this.#end(new CtlError('unavailable', message));
    }, options.connectTimeoutMs).unref();
  }

  send(message: Uint8Array): void {
    if (this.#closed || this.#stream === undefined || this.#stream.writableEnded) return;
    this.#stream.write(prefixed(message));
    if (this.#stream.writableLength <= this.#maxUnsent) return;
    this.#end(new CtlError('resource_exhausted', `${this.#name} does not read what it is sent`));
  }

  read(enabled: boolean): void {
    if (enabled) this.#stream?.resume();
    else this.#stream?.pause();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#connecting);
    clearInterval(this.#keepalive);
    this.#stream?.close(http2.constants.NGHTTP2_CANCEL);
    this.#session.close();
    this.#session.destroy();
    this.#socket.destroy();
  }

  #open(path: string): void {
    if (this.#closed) return;
    clearTimeout(this.#connecting);
    const { connectionWindow, keepaliveMs } = this.#options;
    if (connectionWindow > INITIAL_WINDOW) this.#session.setLocalWindowSize(connectionWindow);
    const headers = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' };
    const stream = this.#session.request(headers, { endStream: false });
    this.#stream = stream;
    stream.on('response', (response) => this.#began(response));
    stream.on('trailers', (trailers) => this.#takeStatus(trailers));
    stream.on('data', (bytes: Buffer) => this.#read(bytes));
    stream.on('error', (error) => this.#unreachable(error));
    // A stream that was reset while reading was paused has an end, and is never closed.
    for (const event of ['end', 'close']) stream.on(event, () => this.#unreachable(undefined));
    this.#keepalive = setInterval(() => this.#ping(), Math.min(keepaliveMs, MAX_DELAY_MS)).unref();
    this.#handler.opened();
    this.#maxUnsent = stream.writableLength + MAX_UNSENT_BYTES;
  }

  #began(headers: IncomingHttpHeaders & { readonly ':status'?: number | undefined }): void {
    const status = headers[':status'];
    if (status !== 200) {
      this.#end(new CtlError('unavailable', `${this.#name} returned HTTP ${status ?? 'nothing'}`));
    } else if (headers['grpc-status'] !== undefined) this.#takeStatus(headers);
  }

  #takeStatus(headers: IncomingHttpHeaders): void {
    const code = String(headers['grpc-status'] ?? '2');
    const text = decoded(String(headers['grpc-message'] ?? ''))
      .replaceAll(/\s+/g, ' ')
      .slice(0, MAX_STATUS_CHARS);
    const shown = text === '' ? `gRPC status ${code}` : text;
    const message = code === '0' ? `${this.#name} has ended the stream` : `${this.#name} returned: ${shown}`;
    this.#status = new CtlError(CODES[code] ?? 'unavailable', message);
  }

  #read(bytes: Buffer): void {
    if (this.#closed) return;
    this.#isActive = true;
    try {
      this.#messages.add(bytes);
    } catch (error) {
      this.#end(error instanceof CtlError ? error : new CtlError('internal', oneLineOf(error), {}, error));
    }
  }

  #ping(): void {
    if (this.#isActive) {
      this.#isActive = false;
      return;
    }
    const late = setTimeout(
      () => {
        this.#end(new CtlError('unavailable', `${this.#name} does not answer any more`));
      },
      Math.min(this.#options.keepaliveTimeoutMs, MAX_DELAY_MS),
    ).unref();
    const sent = !this.#session.destroyed && this.#session.ping(() => clearTimeout(late));
    if (!sent) clearTimeout(late);
  }

  #unreachable(error: unknown): void {
    const lost = 'the connection was closed';
    const reason = error === undefined ? lost : reasonOf(error);
    this.#end(this.#status ?? new CtlError('unavailable', `${this.#name} cannot be reached: ${reason}`, {}, error));
  }

  #end(error: CtlError): void {
    if (this.#closed) return;
    this.close();
    this.#handler.ended(error);
  }
}

function connect({ host, port, tls }: StreamTarget): Socket {
  if (tls === undefined) return connectTcp({ host, port, noDelay: true });
  const { roots, client, serverName, checkServer } = tls;
  const socket = connectTls({
    host,
    port,
    ALPNProtocols: ['h2'],
    // Explicitly, because NODE_TLS_REJECT_UNAUTHORIZED changes the default.
    rejectUnauthorized: true,
    // RFC 6066 section 3: SNI has no addresses.
    ...(isIP(serverName) === 0 ? { servername: serverName } : {}),
    ...(roots === undefined ? {} : { ca: roots }),
    ...(client === undefined ? {} : { cert: client.chain, key: client.key }),
    ...(checkServer === undefined ? {} : { checkServerIdentity: (_host, certificate) => checkServer(certificate) }),
  });
  socket.setNoDelay(true);
  return socket;
}

function reasonOf(error: unknown): string {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  if (code === 'ECONNREFUSED') return 'connection refused';
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'its name cannot be resolved';
  if (code === 'ECONNRESET' || code === 'EPIPE') return 'the connection was closed';
  return oneLineOf(error);
}

/** The message of a status is percent-encoded. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
