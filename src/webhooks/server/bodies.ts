/**
 * Reads bodies of requests under a limit for each and a quota for all: the bytes of requests that have not been
 * responded to yet. One address may use half of what is free for its rank, so that some is left for others.
 */
import type { IncomingMessage } from 'node:http';
import { CtlError } from '../../core/errors.ts';
import { type Caller, shareOf } from './callers.ts';

/** The API server takes objects up to 3 MiB; a review of an update contains the old object as well. */
export const MAX_BODY_BYTES = 7 * 1024 * 1024;

/** Bytes of all bodies together. */
export const QUOTA_BYTES = 64 * 1024 * 1024;

export class BodyQuota {
  readonly #limit: number;
  readonly #byAddress = new Map<string, number>();
  #used = 0;

  constructor(limit = QUOTA_BYTES) {
    this.#limit = limit;
  }

  get used(): number {
    return this.#used;
  }

  /** False when the caller has used its share, or nothing is left for its rank. */
  reserve({ address, rank }: Caller, bytes: number): boolean {
    const own = this.#byAddress.get(address) ?? 0;
    if (own + bytes > this.#limit * shareOf(rank) - this.#used) return false;
    this.#byAddress.set(address, own + bytes);
    this.#used += bytes;
    return true;
  }

  release({ address }: Caller, bytes: number): void {
    const left = (this.#byAddress.get(address) ?? 0) - bytes;
    if (left > 0) this.#byAddress.set(address, left);
    else this.#byAddress.delete(address);
    this.#used -= bytes;
  }
}

/** A body, which counts against the quota until it is released. */
export interface ReservedBody {
  readonly bytes: Uint8Array;
  release(): void;
}

/**
 * Reads the body of a request. The connection's own timeouts limit how long that takes.
 * Rejects with CtlError: TooLarge, resource_exhausted without quota, and
 * unavailable when the client ends before its body.
 */
export function readBody(request: IncomingMessage, quota: BodyQuota, caller: Caller): Promise<ReservedBody> {
  const chunks: Buffer[] = [];
  let size = 0;
  const release = (): void => {
    quota.release(caller, size);
    size = 0;
  };
  return new Promise((resolve, reject) => {
    const fail = (error: CtlError): void => {
      chunks.length = 0;
      release();
      request.off('data', take);
      // What else arrives is discarded.
      request.resume();
      reject(error);
    };
    const take = (chunk: Buffer): void => {
      if (size + chunk.length > MAX_BODY_BYTES) fail(new TooLarge());
      else if (!quota.reserve(caller, chunk.length)) {
        fail(new CtlError('resource_exhausted', 'too many requests are waiting; try again later'));
      } else {
        size += chunk.length;
        chunks.push(chunk);
      }
    };
    if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) {
      fail(new TooLarge());
      return;
    }
    request.on('data', take);
    request.once('close', () => {
      if (!request.complete)
        fail(new CtlError('unavailable', 'the client closed the connection before the end of the body'));
    });
    request.once('end', () => {
      // Buffer.concat may return a part of a larger buffer, all of which would be copied to the worker.
      const bytes = new Uint8Array(size);
      let offset = 0;
      for (const chunk of chunks.splice(0)) {
        bytes.set(chunk, offset);
        offset += chunk.length;
      }
      resolve({ bytes, release });
    });
  });
}

/** A body that is larger than the limit. */
export class TooLarge extends CtlError {
  constructor() {
    super('invalid_argument', `the body is larger than ${MAX_BODY_BYTES} bytes`);
  }
}
