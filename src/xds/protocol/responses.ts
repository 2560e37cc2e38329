/**
 * Response frames: a head of a few bytes made per stream, followed by encoded resources that all streams share.
 * Source: envoy/service/discovery/v3/discovery.proto
 */
import { MESSAGE_PREFIX_BYTES } from '../../grpc/index.ts';
import type { EncodedResource } from '../../push/types.ts';
import { encodeStrings, type StringField } from '../request/wire.ts';

/** What a protocol machine wants to be sent. Only `version` and `nonce` are this stream's own; `body` is shared. */
export interface ResponseMessage {
  readonly typeUrl: string;
  /** SotW: version_info, Delta: system_version_info. */
  readonly version: string;
  readonly nonce: string;
  /** Delta only. */
  readonly removed: readonly string[];
  /** Encoded `resources` fields of the protocol's message. */
  readonly body: readonly Uint8Array[];
}

/** The length-prefixed gRPC message as chunks: own head, then the shared body. */
export function encodeResponse(message: ResponseMessage): readonly Uint8Array[] {
  // Fields may stand in any order; the head has all but `resources` (2).
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

/** The variants of the protocol. */
export type Mode = 'sotw' | 'delta';

type Field = (resource: EncodedResource) => Uint8Array;

const deltaField: Field = ({ fragment }) => fragment;

/** The same bytes from the Any on. */
const sotwField: Field = ({ fragment, anyOffset }) => fragment.subarray(anyOffset);

/** How a resource is a field of a DiscoveryResponse or DeltaDiscoveryResponse. */
export function fieldOf(mode: Mode): Field {
  return mode === 'delta' ? deltaField : sotwField;
}
