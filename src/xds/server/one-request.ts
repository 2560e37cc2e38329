/**
 * The request of a call that is answered by a stream: unlike that of a unary call, nobody gathers it before the handler
 * is asked.
 */

import { CtlError } from '../../core/errors.ts';
import type { StreamCall } from '../../grpc/index.ts';
import { type RequestFormat, RequestReader } from '../request/index.ts';

/** A request as it came. */
const AS_IT_IS: RequestFormat<Buffer> = { lists: new Map(), decode: (bytes) => Buffer.from(bytes) };

export interface OneRequestLimits {
  readonly maxBytes: number;
  /** How long the request may take to come whole, ms. */
  readonly timeoutMs: number;
}

/**
 * Resolves when the client has said all that it has to say. Rejects with CtlError when that is not one request, or not
 * in time.
 */
export function oneRequest(call: StreamCall, { maxBytes, timeoutMs }: OneRequestLimits): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const refused = (error: unknown): void => {
      clearTimeout(late);
      reject(error);
    };
    const late = setTimeout(
      () => refused(new CtlError('deadline_exceeded', 'the request was not completed')),
      timeoutMs,
    ).unref();
    call.onClose(() => refused(new CtlError('unavailable', 'the call is over')));
    const requests: Buffer[] = [];
    const message = (bytes: Buffer): void => {
      if (requests.length > 0) refused(new CtlError('invalid_argument', 'more than one request'));
      else requests.push(bytes);
    };
    const reader = new RequestReader({ message, refused }, AS_IT_IS, maxBytes);
    call.read({
      data: (bytes) => reader.take(bytes),
      ended() {
        clearTimeout(late);
        const [request] = requests;
        if (request === undefined) reject(new CtlError('invalid_argument', 'the request is missing'));
        else resolve(request);
      },
    });
  });
}
