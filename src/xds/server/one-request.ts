/**
 * Reads the single request of a call with a streamed response: the gRPC server only assembles requests of unary calls.
 */

import { CtlError } from '../../core/errors.ts';
import type { StreamCall } from '../../grpc/index.ts';
import { type RequestFormat, RequestReader } from '../request/index.ts';

/** A request as bytes. */
const AS_BYTES: RequestFormat<Buffer> = { lists: new Map(), decode: (bytes) => Buffer.from(bytes) };

export interface OneRequestLimits {
  readonly maxBytes: number;
  /** Time in which the request has to be complete, ms. */
  readonly timeoutMs: number;
}

/**
 * Resolves when the client half-closes the call. Rejects with CtlError unless it has sent exactly one request in time.
 */
export function oneRequest(call: StreamCall, { maxBytes, timeoutMs }: OneRequestLimits): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const refused = (error: unknown): void => {
      clearTimeout(timeout);
      reject(error);
    };
    const timeout = setTimeout(
      () => refused(new CtlError('deadline_exceeded', 'the request was not completed')),
      timeoutMs,
    ).unref();
    call.onClose(() => refused(new CtlError('unavailable', 'the call is over')));
    const requests: Buffer[] = [];
    const message = (bytes: Buffer): void => {
      if (requests.length > 0) refused(new CtlError('invalid_argument', 'more than one request'));
      else requests.push(bytes);
    };
    const reader = new RequestReader({ message, refused }, AS_BYTES, maxBytes);
    call.read({
      data: (bytes) => reader.take(bytes),
      ended() {
        clearTimeout(timeout);
        const [request] = requests;
        if (request === undefined) reject(new CtlError('invalid_argument', 'the request is missing'));
        else resolve(request);
      },
    });
  });
}
