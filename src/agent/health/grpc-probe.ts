/**
 * The gRPC health check (https://github.com/grpc/grpc/blob/master/doc/health-checking.md), as the orchestrator makes
 * it: plain text, a new connection for each check.
 */
import type { IncomingHttpHeaders } from 'node:http2';
import { isIP } from 'node:net';
import { CtlError } from '../../core/errors.ts';

export interface GrpcTarget {
  readonly host: string;
  readonly port: number;
  /** Empty: the server as a whole. */
  readonly service: string;
  readonly timeoutMs: number;
}

const PATH = '/grpc.health.v1.Health/Check';
/** Longest answer: a message of one number, with its frame. */
const MAX_ANSWER = 1024;
/** Frame of a message: compression flag and length. */
const FRAME_BYTES = 5;
/** `HealthCheckResponse { status: SERVING }`: field 1, varint 1. */
const SERVING = Buffer.from([0x08, 0x01]);

/** Whether the service answers that it serves. Rejects when it cannot be reached in time. */
export async function isServing({ host, port, service, timeoutMs }: GrpcTarget): Promise<boolean> {
  const { connect } = await import('node:http2');
  const session = connect(`http://${isIP(host) === 6 ? `[${host}]` : host}:${port}`);
  const { promise, resolve, reject } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => reject(new CtlError('deadline_exceeded', 'no answer in time')), timeoutMs);
  session.once('error', reject);
  const stream = session.request({
    ':method': 'POST',
    ':path': PATH,
    'content-type': 'application/grpc',
    te: 'trailers',
    'grpc-timeout': `${Math.ceil(timeoutMs)}m`,
  });
  let body = Buffer.alloc(0);
  let status: string | undefined;
  const note = (headers: IncomingHttpHeaders): void => {
    const value = headers['grpc-status'];
    if (value !== undefined) status = String(value);
  };
  stream.once('response', note);
  stream.once('trailers', note);
  stream.on('data', (chunk: Buffer) => {
    body = Buffer.concat([body, chunk]);
    if (body.length > MAX_ANSWER) reject(new CtlError('resource_exhausted', 'the answer is too long'));
  });
  stream.once('error', reject);
  stream.once('close', () => resolve(status === '0' && body.subarray(FRAME_BYTES).equals(SERVING)));
  stream.end(request(service));
  return promise.finally(() => {
    clearTimeout(timer);
    session.destroy();
  });
}

/** `HealthCheckRequest { service }` in its frame. */
function request(service: string): Buffer {
  const name = Buffer.from(service);
  const length: number[] = [];
  for (let rest = name.length; ; rest >>= 7) {
    if (rest < 0x80) {
      length.push(rest);
      break;
    }
    length.push((rest & 0x7f) | 0x80);
  }
  const message = name.length === 0 ? name : Buffer.concat([Buffer.from([0x0a, ...length]), name]);
  const frame = Buffer.alloc(FRAME_BYTES);
  frame.writeUInt32BE(message.length, 1);
  return Buffer.concat([frame, message]);
}
