/** Loads @grpc/grpc-js, when it is needed: an agent without certificates and without an xDS proxy does not need it. */
import type * as Grpc from '@grpc/grpc-js';

export async function loadGrpc(): Promise<typeof Grpc> {
  // The default export: in a bundle, a CommonJS module that is loaded dynamically has no other.
  const { default: grpc } = await import('@grpc/grpc-js');
  // It would write about the input of peers to stderr; what matters reaches the callers as errors.
  grpc.setLogVerbosity(grpc.logVerbosity.NONE);
  return grpc as typeof Grpc;
}

/** Messages are bytes on both sides; grpc-js needs a Buffer. */
export function asBuffer(message: Uint8Array): Buffer {
  return Buffer.from(message.buffer, message.byteOffset, message.length);
}
