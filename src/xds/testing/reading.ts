/** Test support: a reader of requests, and ways to cut bytes for it. */
import type { CtlError } from '../../core/errors.ts';
import type { DeltaRequest } from '../protocol/requests.ts';
import { RequestReader } from '../request/request-reader.ts';
import { asError, DELTA_REQUESTS, watched } from './protocols.ts';

export const typeUrl = 'type.googleapis.com/x';
export const MAX_BYTES = 1024 * 1024;

export function frame(message: Buffer, flag = 0): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt8(flag, 0);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** Cuts bytes at offsets that `steps` give in turn. */
export function cut(bytes: Buffer, steps: readonly number[]): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const end = Math.min(bytes.length, at + (steps[turn % steps.length] ?? 1));
    pieces.push(bytes.subarray(at, end));
    at = end;
  }
  return pieces;
}

const arrived = Buffer.alloc(64 * 1024);

/** Gives a reader bytes in a buffer that is overwritten afterwards. */
export function give(reader: Pick<RequestReader<never>, 'take'>, bytes: Buffer): void {
  for (const piece of cut(bytes, [arrived.length])) {
    const here = arrived.subarray(0, piece.copy(arrived));
    reader.take(here);
    here.fill(0x1a);
  }
}

interface Reading {
  readonly requests: DeltaRequest[];
  readonly reader: RequestReader<DeltaRequest>;
  /** Bytes that were not recognised, by message. */
  readonly unknown: number[];
  readonly refused: CtlError[];
}

export function reading(maxBytes = MAX_BYTES): Reading {
  const [requests, unknown, refused]: [DeltaRequest[], number[], CtlError[]] = [[], [], []];
  const sink = {
    message: (request: DeltaRequest) => void requests.push(request),
    refused: (error: unknown) => void refused.push(asError(error)),
  };
  const format = watched(DELTA_REQUESTS, (bytes) => unknown.push(bytes));
  return { requests, unknown, refused, reader: new RequestReader(sink, format, maxBytes) };
}
