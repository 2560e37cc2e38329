/** A server for tests with methods of all kinds, and a record of its events. */
import { CtlError } from '../../core/errors.ts';
import { createGrpcServer } from '../index.ts';
import type { EarlyEnd, GrpcServer, GrpcServerOptions, StreamCall } from '../types.ts';

/** Unary: answers with the request, at most {@link MAX_ECHO_BYTES}. */
export const ECHO = '/test.T/Echo';
/** Unary: answers when the test lets it. */
export const WAIT = '/test.T/Wait';
/** Unary: ends with NOT_FOUND. */
export const FAIL = '/test.T/Fail';
/** Unary: throws an error that is not a CtlError. */
export const CRASH = '/test.T/Crash';
/** Stream: sends all received bytes back. */
export const MIRROR = '/test.T/Mirror';
/** Stream: sends `x-bytes` bytes in chunks of `x-chunk` bytes, and ends. */
export const DOWNLOAD = '/test.T/Download';
/** Stream: answers with the number of received bytes. */
export const UPLOAD = '/test.T/Upload';
/** Stream: throws at its start, when data arrives, or at its end, by the header `x-when`. */
export const STUMBLE = '/test.T/Stumble';
/** Stream: neither reads nor writes. */
export const SILENT = '/test.T/Silent';

export const MAX_ECHO_BYTES = 100_000;

export interface TestServer {
  readonly server: GrpcServer;
  readonly port: number;
  /** Stream calls that reached a handler, in order. */
  readonly streams: StreamCall[];
  /** Unary calls that reached a handler. */
  readonly unary: string[];
  readonly refused: CtlError[];
  readonly endedEarly: EarlyEnd[];
  readonly tooLarge: string[];
  readonly faults: unknown[];
  /** Ends the unary calls that wait. */
  release(): void;
}

/** The bytes of {@link DOWNLOAD}: each shows its position. */
export function downloadContent(bytes: number): Buffer {
  const content = Buffer.alloc(bytes);
  for (let index = 0; index < bytes; index++) content[index] = (index * 7 + (index >> 8)) & 255;
  return content;
}

function download(call: StreamCall): void {
  const number = (name: string): number => Number(call.metadata.get(name)[0] ?? 1);
  const content = downloadContent(number('x-bytes'));
  const chunk = number('x-chunk');
  const chunks: Buffer[] = [];
  for (let at = 0; at < content.length; at += chunk) chunks.push(content.subarray(at, at + chunk));
  call.read({ data: () => {}, ended: () => {} });
  call.write(chunks, () => {});
  call.end();
}

function upload(call: StreamCall): void {
  let bytes = 0;
  call.read({
    data: (piece) => {
      bytes += piece.length;
    },
    ended: () => {
      call.write([Buffer.from(String(bytes))], () => {});
      call.end();
    },
  });
}

function mirror(call: StreamCall): void {
  call.read({
    data: (piece) => call.write([Buffer.from(piece)], () => {}),
    ended: () => call.end(),
  });
}

function stumble(call: StreamCall): void {
  const at = (moment: string) => () => {
    if (call.metadata.get('x-when')[0] === moment) throw new Error(`a fault at its ${moment}`);
  };
  at('beginning')();
  call.read({ data: at('data'), ended: at('end') });
}

/** Stream {@link SILENT} with calls of 1 ms each, and their number. */
export function costlyCalls(): { readonly services: GrpcServerOptions['services']; readonly handled: () => number } {
  let handled = 0;
  const handle = (call: StreamCall): void => {
    const until = performance.now() + 1;
    while (performance.now() < until);
    handled++;
    call.end();
  };
  return { services: [{ streams: { [SILENT]: handle } }], handled: () => handled };
}

/** Starts a server on a free port. */
export async function startServer(options: Partial<GrpcServerOptions> = {}): Promise<TestServer> {
  const streams: StreamCall[] = [];
  const unary: string[] = [];
  const refused: CtlError[] = [];
  const endedEarly: EarlyEnd[] = [];
  const tooLarge: string[] = [];
  const faults: unknown[] = [];
  const waiting: (() => void)[] = [];
  const seen = (handle: (call: StreamCall) => void) => (call: StreamCall) => {
    streams.push(call);
    handle(call);
  };
  const method = (path: string, handler: (request: Buffer) => Promise<Buffer>) => ({
    [path]: {
      handler: ({ request }: { readonly request: Buffer }) => {
        unary.push(path);
        return handler(request);
      },
      maxReceiveBytes: MAX_ECHO_BYTES,
    },
  });
  const server = createGrpcServer({
    listeners: [{ host: '127.0.0.1', port: 0 }],
    services: [
      {
        unary: {
          ...method(ECHO, async (request) => request),
          ...method(WAIT, (request) => new Promise((resolve) => waiting.push(() => resolve(request)))),
          ...method(FAIL, () => Promise.reject(new CtlError('not_found', 'nothing like that: 100 % sure, größer'))),
          ...method(CRASH, () => Promise.reject(new Error('a fault'))),
        },
        streams: {
          [MIRROR]: seen(mirror),
          [DOWNLOAD]: seen(download),
          [UPLOAD]: seen(upload),
          [STUMBLE]: seen(stumble),
          [SILENT]: seen(() => {}),
        },
      },
    ],
    observer: {
      refused: (_peer, error) => refused.push(error),
      endedEarly: (reason) => endedEarly.push(reason),
      requestTooLarge: (_peer, details) => tooLarge.push(details),
      internalError: (error) => faults.push(error),
    },
    maxStreams: 100,
    maxConnections: Number.POSITIVE_INFINITY,
    keepaliveIntervalMs: 60_000,
    keepaliveTimeoutMs: 20_000,
    idleMs: 60_000,
    sendTimeoutMs: 60_000,
    requestTimeoutMs: 60_000,
    maxIncomplete: 256,
    ...options,
  });
  await server.start();
  const [port = 0] = server.ports();
  return {
    server,
    port,
    streams,
    unary,
    refused,
    endedEarly,
    tooLarge,
    faults,
    release: () => {
      for (const resolve of waiting.splice(0)) resolve();
    },
  };
}
