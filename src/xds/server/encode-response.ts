/**
 * Response frames: a head of a few bytes for each stream, followed by encoded resources that all streams share.
 * Source: envoy/service/discovery/v3/discovery.proto
 */

import { MESSAGE_PREFIX_BYTES } from '../../grpc/index.ts';
import type { ResponseMessage } from '../protocol/index.ts';
import { encodeStrings, type StringField } from '../request/index.ts';

/** The length-prefixed gRPC message as chunks: the stream's own head, then the shared body. */
export function encodeResponse(message: ResponseMessage): readonly Uint8Array[] {
  // Protobuf fields may be in any order; the head has all but `resources` (2).
  const fields: StringField[] = [
    { number: 1, text: message.version },
    { number: 4, text: message.typeUrl },
    { number: 5, text: message.nonce },
    ...message.removed.map((text) => ({ number: 6, text })),
  ];
  const head = encodeStrings(fields, MESSAGE_PREFIX_BYTES);
  let length = head.length - MESSAGE_PREFIX_BYTES;
  for (const chunk of message.body) length += chunk.length;
  head.writeUInt8(0, 0);
  head.writeUInt32BE(length, 1);
  return [head, ...message.body];
}
