/**
 * Requests byte by byte, exactly as written: HTTP clients correct a path, a host or a header before they send it, and
 * tests of authorization have to send uncorrected ones. Over TCP, over TLS with a client certificate, and over HTTP/2.
 */
import { connect as connectHttp2 } from 'node:http2';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

export interface RawTls {
  /** PEM. Without them no client certificate is shown. */
  readonly certificate?: string;
  readonly key?: string;
  /** SNI; none without. */
  readonly serverName?: string;
  readonly alpn: readonly string[];
}

export interface RawCall {
  readonly address: string;
  readonly port: number;
  /** Source address of the call; absent: the system chooses. */
  readonly localAddress?: string;
  readonly tls?: RawTls;
  /** Sent unchanged, one byte for each character (latin1). */
  readonly send?: string;
  /** Sent over HTTP/2 instead, pseudo-headers among them. */
  readonly http2?: Readonly<Record<string, string>>;
  /** Reading ends when this has arrived. Default: a whole HTTP response, or the end of the connection. */
  readonly until?: string;
  /** Default 4 s. */
  readonly timeoutMs?: number;
}

export interface RawAnswer {
  /** Everything that was received, one character for each byte (latin1); over HTTP/2 the body. */
  readonly text: string;
  /** Of the first HTTP response; 0 without one. */
  readonly status: number;
  /**
   * Over HTTP/2, `grpc-status` of the response's headers; where there is an answer, it comes in trailers, which are not
   * read.
   */
  readonly grpcStatus?: string;
  /** Why reading ended: `enough`, `closed`, `timeout`, or an error's code. */
  readonly end: string;
}

/** Makes a call. Never rejects: failures are part of the answer. */
export function rawCall(call: RawCall): Promise<RawAnswer> {
  return call.http2 === undefined ? rawBytes(call) : rawHttp2(call, call.http2);
}

const DEFAULT_TIMEOUT_MS = 20_000;

function open({ address, port, localAddress, tls }: RawCall): Socket {
  const from = localAddress === undefined ? {} : { localAddress };
  if (tls === undefined) return connectTcp({ host: address, port, ...from });
  const { certificate, key, serverName, alpn } = tls;
  // These calls verify only the client, not the server.
  return connectTls({
    // connect of node:tls has no localAddress, so the connected socket is passed to it.
    socket: connectTcp({ host: address, port, ...from }),
    rejectUnauthorized: false,
    ALPNProtocols: [...alpn],
    ...(certificate === undefined ? {} : { cert: certificate }),
    ...(key === undefined ? {} : { key }),
    ...(serverName === undefined ? {} : { servername: serverName }),
  });
}

/** For responses that have a length. */
function isWholeResponse(text: string): boolean {
  const head = text.indexOf('\r\n\r\n');
  if (head < 0) return false;
  const headers = text.slice(0, head).toLowerCase();
  if (headers.includes('\r\ntransfer-encoding: chunked')) return text.endsWith('0\r\n\r\n');
  const length = /\r\ncontent-length: (\d+)/.exec(headers)?.[1];
  return length !== undefined && text.length >= head + 4 + Number(length);
}

const codeOf = (error: Error): string => (error as NodeJS.ErrnoException).code ?? error.message;

function rawBytes(call: RawCall): Promise<RawAnswer> {
  const { send = '', until, timeoutMs = DEFAULT_TIMEOUT_MS } = call;
  return new Promise((resolve) => {
    let text = '';
    const socket = open(call);
    const settle = (end: string) => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ text, status: Number(/^HTTP\/1\.[01] (\d{3})/.exec(text)?.[1] ?? 0), end });
    };
    const timer = setTimeout(() => settle('timeout'), timeoutMs);
    socket.on('error', (error) => settle(codeOf(error)));
    socket.on('close', () => settle('closed'));
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      // Does not wait for the close: Envoy gives clients a second to read its refusal.
      if (until === undefined ? isWholeResponse(text) : text.includes(until)) settle('enough');
    });
    socket.once(call.tls === undefined ? 'connect' : 'secureConnect', () => socket.write(send, 'latin1'));
  });
}

function rawHttp2(call: RawCall, headers: Readonly<Record<string, string>>): Promise<RawAnswer> {
  return new Promise((resolve) => {
    let [text, status] = ['', 0];
    let grpc: Pick<RawAnswer, 'grpcStatus'> = {};
    const session = connectHttp2('http://raw', { createConnection: () => open(call) });
    const settle = (end: string) => {
      clearTimeout(timer);
      session.destroy();
      resolve({ text, status, ...grpc, end });
    };
    const timer = setTimeout(() => settle('timeout'), call.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    const fail = (error: Error) => settle(codeOf(error));
    session.on('error', fail);
    session.on('close', () => settle('closed'));
    try {
      const stream = session.request(headers, { endStream: true });
      stream.setEncoding('latin1');
      stream.on('error', fail);
      stream.on('response', (fields) => {
        status = Number(fields[':status'] ?? 0);
        const grpcStatus = fields['grpc-status'];
        if (typeof grpcStatus === 'string') grpc = { grpcStatus };
      });
      stream.on('data', (chunk: string) => {
        text += chunk;
      });
      stream.on('close', () => settle('closed'));
    } catch (error) {
      // Node itself refused to send it.
      fail(error instanceof Error ? error : new Error(String(error)));
    }
  });
}
