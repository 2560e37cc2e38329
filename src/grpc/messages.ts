/**
 * Length-prefixed messages.
 * Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md (Length-Prefixed-Message)
 */
import { CtlError } from '../core/errors.ts';

/** The compressed flag and the length. */
export const MESSAGE_PREFIX_BYTES = 5;

/** A message with its prefix. */
export function prefixed(message: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(MESSAGE_PREFIX_BYTES + message.length);
  bytes.writeUInt8(0, 0);
  bytes.writeUInt32BE(message.length, 1);
  bytes.set(message, MESSAGE_PREFIX_BYTES);
  return bytes;
}

/** A message that is given as chunks, with its prefix as another one before them. */
export function withPrefix(chunks: readonly Uint8Array[]): readonly Uint8Array[] {
  const prefix = Buffer.alloc(MESSAGE_PREFIX_BYTES);
  prefix.writeUInt32BE(
    chunks.reduce((sum, { length }) => sum + length, 0),
    1,
  );
  return [prefix, ...chunks];
}

/** Why a message with this prefix is refused; undefined when it is accepted. */
export function prefixError(flag: number, length: number, maxBytes: number): CtlError | undefined {
  // https://github.com/grpc/grpc/blob/master/doc/compression.md: the flag without an encoding is an internal error.
  if (flag !== 0) return new CtlError('internal', 'compressed message, but the call has no message encoding');
  return length > maxBytes
    ? new CtlError('resource_exhausted', `received message larger than max (${length} vs ${maxBytes})`)
    : undefined;
}

/** Length of the message after a prefix. Throws CtlError when it is refused. */
export function checkedLength(prefix: Buffer, maxBytes: number): number {
  const length = prefix.readUInt32BE(1);
  const error = prefixError(prefix.readUInt8(0), length, maxBytes);
  if (error !== undefined) throw error;
  return length;
}
