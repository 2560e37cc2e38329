/**
 * Response frames: a head of a few bytes for each stream, followed by encoded resources that all streams share.
 * Source: envoy/service/discovery/v3/discovery.proto
 */
import { type Deflated, gzipMessage, MESSAGE_PREFIX_BYTES, type MessagePart } from '../../grpc/index.ts';
import { encodeFields, type FieldToWrite } from '../../protobuf/wire/index.ts';
import type { ResponseMessage } from '../protocol/index.ts';

/** Protobuf fields may be in any order; the head has all but `resources` (2). */
function headOf({ version, typeUrl, nonce, removed }: ResponseMessage): readonly FieldToWrite[] {
  return [[1, version], [4, typeUrl], [5, nonce], ...removed.map((name): FieldToWrite => [6, name])];
}

/** The length-prefixed gRPC message as chunks: the stream's own head, then the shared body. */
export function encodeResponse(message: ResponseMessage): readonly Uint8Array[] {
  const head = encodeFields(headOf(message), MESSAGE_PREFIX_BYTES);
  let length = head.length - MESSAGE_PREFIX_BYTES;
  for (const chunk of message.body) length += chunk.length;
  head.writeUInt8(0, 0);
  head.writeUInt32BE(length, 1);
  return [head, ...message.body];
}

/** A response whose body is compressed, at least in part. */
interface CompressedResponse {
  readonly chunks: readonly Uint8Array[];
  /** Length of the message before compression, with its prefix. */
  readonly bytes: number;
}

/**
 * The most bytes of a body that a compressed message has as they are. They are copied for each stream, and a large body
 * that is sent as it is is not.
 */
const MAX_COPIED_BYTES = 64 * 1024;

/**
 * The same message, compressed by gzip; undefined when too little of its body has a compressed form.
 * @param deflated gives the compressed form of a part, if it has one
 */
export function compressResponse(
  message: ResponseMessage,
  deflated: (part: Uint8Array) => Deflated | undefined,
): CompressedResponse | undefined {
  let isCompressed = false;
  let copied = 0;
  let bytes = MESSAGE_PREFIX_BYTES;
  const body = message.body.map((part): MessagePart => {
    const form = deflated(part);
    if (form === undefined) copied += part.length;
    else isCompressed = true;
    bytes += part.length;
    return form ?? part;
  });
  if (!isCompressed || copied > MAX_COPIED_BYTES) return undefined;
  const head = encodeFields(headOf(message));
  bytes += head.length;
  return { chunks: gzipMessage([head, ...body]), bytes };
}
