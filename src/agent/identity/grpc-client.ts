/**
 * A unary gRPC call over `node:http2`, each on a connection of its own: calls are minutes apart, and whatever is proved
 * and trusted is read anew for each. (@grpc/grpc-js would cost an agent more memory than everything else here
 * together.) Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
 */
import { type ClientHttp2Session, connect, constants } from 'node:http2';
import { CtlError, type CtlErrorCode } from '../../core/errors.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { frame, frameReader } from './grpc-frame.ts';

/** Where to call and what is shown there. */
export interface GrpcTarget {
  readonly host: string;
  readonly port: number;
  /** DNS name that the server's certificate must have. */
  readonly serverName: string;
  /** PEM certificates of roots that the server's certificate must come from. */
  readonly roots: string;
  /** PEM; shown when the server asks for it. */
  readonly client: { readonly chain: string; readonly key: string } | undefined;
}

export interface UnaryCall {
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly request: Uint8Array;
  /** Metadata: lower-case names. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** A connection that may be called several times. */
export interface GrpcConnection {
  /**
   * The response. Rejects with CtlError: the server's status, `unavailable` for everything below it, and at the
   * deadline.
   */
  unary(call: UnaryCall): Promise<Buffer>;
  close(): void;
}

/** Longer answers are none of an authority's. */
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

/** Connects over TLS. Each call, the first one's connecting included, may take `timeoutMs`. */
export function openGrpc(target: GrpcTarget, clock: WallClock, timeoutMs: number): GrpcConnection {
  const { host, port, serverName, roots, client } = target;
  const place = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  const session = connect(`https://${place}`, {
    ca: roots,
    servername: serverName,
    minVersion: 'TLSv1.2',
    ...(client === undefined ? {} : { cert: client.chain, key: client.key }),
  });
  let fault: Error | undefined;
  session.on('error', (error) => {
    fault ??= error;
  });
  return {
    unary: (call) => unary(session, call, `${serverName}:${port}`, () => fault, place, clock, timeoutMs),
    close: () => session.destroy(),
  };
}

function unary(
  session: ClientHttp2Session,
  call: UnaryCall,
  authority: string,
  sessionFault: () => Error | undefined,
  place: string,
  clock: WallClock,
  timeoutMs: number,
): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const unreachable = (error: unknown): void => reject(unavailable(place, error));
  if (session.destroyed) {
    unreachable(sessionFault() ?? new CtlError('unavailable', 'the connection was closed'));
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
    reject(new CtlError('unavailable', `${place} did not answer within ${timeoutMs} ms`));
    session.destroy();
  });
  const read = frameReader(MAX_RESPONSE_BYTES);
  let answer: Buffer | undefined;
  let status: Error | 'ok' | undefined;
  const take = (headers: Readonly<Record<string, unknown>>): void => {
    status ??= statusOf(headers, place);
  };
  stream.on('response', (headers) => {
    take(headers);
    const http = headers[':status'];
    if (http !== 200) status ??= new CtlError('unavailable', `${place} answered with HTTP status ${http}`);
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
  // A stream that the connection's end has cancelled names the reason as its cause.
  stream.on('error', (error) => unreachable(sessionFault() ?? error.cause ?? error));
  stream.on('close', () => {
    timer.cancel();
    if (status instanceof Error) reject(status);
    else if (status === 'ok' && answer !== undefined) resolve(answer);
    else
      unreachable(
        sessionFault() ?? new CtlError('unavailable', 'the connection was closed before the answer was complete'),
      );
  });
  stream.end(frame(call.request));
  return promise.finally(() => timer.cancel());
}

/** The status that headers or trailers carry, if they carry one. */
function statusOf(headers: Readonly<Record<string, unknown>>, place: string): Error | 'ok' | undefined {
  const code = headers['grpc-status'];
  if (code === undefined) return undefined;
  if (code === '0') return 'ok';
  const details = decoded(String(headers['grpc-message'] ?? ''));
  return new CtlError(
    CODES[Number(code)] ?? 'unavailable',
    `${place} answered: ${details || `gRPC status ${String(code)}`}`,
  );
}

/** grpc-message is percent-encoded; one that is not, is shown as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function unavailable(place: string, error: unknown): CtlError {
  const { code, message } = error as NodeJS.ErrnoException;
  // Node's messages on connecting repeat the address; those on certificates say what is wrong, and give advice on
  // Node's own roots.
  const [words] = message.split('; if the root CA is installed');
  const reason = code === 'ECONNREFUSED' ? 'connection refused' : words || code || 'no connection';
  return new CtlError('unavailable', `${place} cannot be reached: ${reason}`, {}, error);
}
