/**
 * Response frames: a head of a few bytes for each stream, followed by encoded resources that all streams share.
 * Source: envoy/service/discovery/v3/discovery.proto
 */
import { MESSAGE_PREFIX_BYTES } from '../../grpc/index.ts';
import { encodeFields, type FieldToWrite } from '../../protobuf/wire/index.ts';
import type { ResponseMessage } from '../protocol/index.ts';

/** The length-prefixed gRPC message as chunks: the stream's own head, then the shared body. */
export function encodeResponse(message: ResponseMessage): readonly Uint8Array[] {
  // Protobuf fields may be in any order; the head has all but `resources` (2).
  const fields: FieldToWrite[] = [
    [1, message.version],
    [4, message.typeUrl],
    [5, message.nonce],
    ...message.removed.map((name): FieldToWrite => [6, name]),
  ];
  const head = encodeFields(fields, MESSAGE_PREFIX_BYTES);
  let length = head.length - MESSAGE_PREFIX_BYTES;
  for (const chunk of message.body) length += chunk.length;
  head.writeUInt8(0, 0);
  head.writeUInt32BE(length, 1);
  return [head, ...message.body];
}
