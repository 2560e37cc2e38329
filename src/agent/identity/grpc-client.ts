/**
 * Unary gRPC calls over `node:http2`, on a new connection each: calls are minutes apart, and credentials and roots are
 * read for each. (@grpc/grpc-js would need more memory than everything else here.) Source:
 * https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
 */
import { type ClientHttp2Session, connect, constants } from 'node:http2';
import { CtlError, type CtlErrorCode } from '../../core/errors.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { frame, frameReader } from './grpc-frame.ts';

/** The server and the client's credentials. */
export interface GrpcTarget {
  readonly host: string;
  readonly port: number;
  /** DNS name that the server's certificate must have. */
  readonly serverName: string;
  /** PEM certificates of the roots that verify the server's certificate. */
  readonly roots: string;
  /** The client certificate, PEM. */
  readonly client: { readonly chain: string; readonly key: string } | undefined;
}

export interface UnaryCall {
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly request: Uint8Array;
  /** Metadata, with lower-case names. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** A connection for several calls. */
export interface GrpcConnection {
  /**
   * Calls a method. Rejects with CtlError: the server's status, or `unavailable` for failures of the connection and at
   * the deadline.
   */
  unary(call: UnaryCall): Promise<Buffer>;
  close(): void;
}

/** Longer responses are refused: an authority's are shorter. */
const MAX_RESPONSE_BYTES = 1024 * 1024;

const CODES: Readonly<Record<number, CtlErrorCode>> = {
  3: 'invalid_argument',
  5: 'not_found',
  6: 'already_exists',
  7: 'permission_denied',
  8: 'resource_exhausted',
  9: 'failed_precondition',
  12: 'unimplemented',
  13: 'internal',
  16: 'unauthenticated',
};

/** Connects over TLS. `timeoutMs` is the limit of each call, including the connection for the first one. */
export function openGrpc(target: GrpcTarget, clock: WallClock, timeoutMs: number): GrpcConnection {
  const { host, port, serverName, roots, client } = target;
  const address = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  const session = connect(`https://${address}`, {
    ca: roots,
    servername: serverName,
    minVersion: 'TLSv1.2',
    ...(client === undefined ? {} : { cert: client.chain, key: client.key }),
  });
  let failure: Error | undefined;
  session.on('error', (error) => {
    failure ??= error;
  });
  return {
    unary: (call) => unary(session, call, `${serverName}:${port}`, () => failure, address, clock, timeoutMs),
    close: () => session.destroy(),
  };
}

function unary(
  session: ClientHttp2Session,
  call: UnaryCall,
  authority: string,
  sessionError: () => Error | undefined,
  address: string,
  clock: WallClock,
  timeoutMs: number,
): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const unreachable = (error: unknown): void => reject(unavailable(address, error));
  if (session.destroyed) {
    unreachable(sessionError() ?? new CtlError('unavailable', 'the connection was closed'));
    return promise;
  }
  const stream = session.request({
    ':method': 'POST',
    ':path': call.path,
    ':authority': authority,
    'content-type': 'application/grpc',
    te: 'trailers',
    'grpc-timeout': `${timeoutMs}m`,
    ...call.metadata,
  });
  const timer = clock.setTimer(timeoutMs, () => {
    reject(new CtlError('unavailable', `${address} did not answer within ${timeoutMs} ms`));
    session.destroy();
  });
  const read = frameReader(MAX_RESPONSE_BYTES);
  let answer: Buffer | undefined;
  let status: Error | 'ok' | undefined;
  const take = (headers: Readonly<Record<string, unknown>>): void => {
    status ??= statusOf(headers, address);
  };
  stream.on('response', (headers) => {
    take(headers);
    const http = headers[':status'];
    if (http !== 200) status ??= new CtlError('unavailable', `${address} answered with HTTP status ${http}`);
  });
  stream.on('trailers', take);
  stream.on('data', (chunk: Buffer) => {
    try {
      for (const message of read(chunk)) answer ??= Buffer.from(message);
    } catch (error) {
      reject(error);
      stream.close(constants.NGHTTP2_CANCEL);
    }
  });
  // A stream that was canceled by the end of its connection has the reason as its cause.
  stream.on('error', (error) => unreachable(sessionError() ?? error.cause ?? error));
  stream.on('close', () => {
    timer.cancel();
    if (status instanceof Error) reject(status);
    else if (status === 'ok' && answer !== undefined) resolve(answer);
    else
      unreachable(
        sessionError() ?? new CtlError('unavailable', 'the connection was closed before the answer was complete'),
      );
  });
  stream.end(frame(call.request));
  return promise.finally(() => timer.cancel());
}

/** The status in headers or trailers, if there is one. */
function statusOf(headers: Readonly<Record<string, unknown>>, address: string): Error | 'ok' | undefined {
  const code = headers['grpc-status'];
  if (code === undefined) return undefined;
  if (code === '0') return 'ok';
  const details = decoded(String(headers['grpc-message'] ?? ''));
  return new CtlError(
    CODES[Number(code)] ?? 'unavailable',
    `${address} answered: ${details || `gRPC status ${String(code)}`}`,
  );
}

/** Decodes a percent-encoded grpc-message; any other is shown unchanged. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function unavailable(address: string, error: unknown): CtlError {
  const { code, message } = error as NodeJS.ErrnoException;
  // Node's messages about connections repeat the address; those about certificates are useful, except for their advice
  // on Node's own roots.
  const [words] = message.split('; if the root CA is installed');
  const reason = code === 'ECONNREFUSED' ? 'connection refused' : words || code || 'no connection';
  return new CtlError('unavailable', `${address} cannot be reached: ${reason}`, {}, error);
}
