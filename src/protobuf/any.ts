/** Packs messages into `google.protobuf.Any`, which holds the configuration of Envoy's extensions. */
import type { google, Writer } from '../../proto/gen/envoy.js';

/** The members of a generated message class that encode `Input`. */
export interface Encodable<Input> {
  encode(message: Input): Writer;
  getTypeUrl(): string;
}

/** The encoded bytes of a message. */
export function encode<Input>(type: Encodable<Input>, message: NoInfer<Input>): Uint8Array {
  return type.encode(message).finish();
}

/** A message in an Any: `packAny(Router, {})`. The message's keys are checked as in a direct `encode`. */
export function packAny<Input>(type: Encodable<Input>, message: NoInfer<Input>): google.protobuf.Any.Input {
  return { typeUrl: type.getTypeUrl(), value: type.encode(message).finish() };
}

/** Bytes that are encoded already, in an Any of the given type URL. */
export function packBytes(typeUrl: string, value: Uint8Array): google.protobuf.Any.Input {
  return { typeUrl, value };
}
