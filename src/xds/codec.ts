/**
 * Requests in, response frames out. Requests are decoded field by field with limits (the port may be open to anyone); responses
 * are a head of a few bytes made per stream, followed by encoded resources that all streams share.
 * Source: envoy/service/discovery/v3/discovery.proto
 */
import { CtlError } from '../core/errors.ts';
import type { EncodedResource } from '../push/types.ts';
import { encodeStrings, type StringField, WireReader } from './wire.ts';

/**
 * Most resource names in one request. Meshes of 10,000 services with a few ports each stay below; a request of one-byte
 * names at the default receive limit (4 MiB) would have 1.4 million.
 */
export const MAX_NAMES_PER_REQUEST = 200_000;

/** Longest resource name, bytes. Generated names are below 300 (a host name has at most 253). */
export const MAX_NAME_BYTES = 4096;

/** An Envoy's error message is kept to this many characters: it can quote a whole listener. */
export const MAX_NACK_MESSAGE = 4096;

export interface SotwRequest {
  readonly typeUrl: string;
  readonly versionInfo: string;
  readonly responseNonce: string;
  readonly names: readonly string[];
  /** Message of `error_detail`; undefined: this is no NACK. */
  readonly nack: string | undefined;
  /** The encoded Node, when sent. */
  readonly node: Buffer | undefined;
}

export interface DeltaRequest {
  readonly typeUrl: string;
  readonly responseNonce: string;
  readonly subscribe: readonly string[];
  readonly unsubscribe: readonly string[];
  readonly initialVersions: ReadonlyMap<string, string>;
  readonly nack: string | undefined;
  readonly node: Buffer | undefined;
}

function nameOf(
  reader: WireReader,
  field: { number: number; wireType: number; value: number; start: number; end: number },
  count: number,
): string {
  if (count >= MAX_NAMES_PER_REQUEST)
    throw new CtlError('invalid_argument', `a request may name at most ${MAX_NAMES_PER_REQUEST} resources`);
  if (field.end - field.start > MAX_NAME_BYTES)
    throw new CtlError('invalid_argument', `a resource name may have at most ${MAX_NAME_BYTES} bytes`);
  return reader.text(field);
}

/** `google.rpc.Status.message` (field 2), shortened. */
function statusMessage(reader: WireReader): string {
  let message = '';
  for (let field = reader.next(); field !== undefined; field = reader.next())
    if (field.number === 2) {
      const end = Math.min(field.end, field.start + 4 * MAX_NACK_MESSAGE);
      message = reader.text({ ...field, end }).slice(0, MAX_NACK_MESSAGE);
    }
  return message;
}

/** Decodes a DiscoveryRequest. Throws CtlError invalid_argument. */
export function decodeSotwRequest(bytes: Buffer): SotwRequest {
  const reader = new WireReader(bytes);
  const names: string[] = [];
  let typeUrl = '';
  let versionInfo = '';
  let responseNonce = '';
  let nack: string | undefined;
  let node: Buffer | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) versionInfo = reader.text(field);
    else if (field.number === 2) node = bytes.subarray(field.start, field.end);
    else if (field.number === 3) names.push(nameOf(reader, field, names.length));
    else if (field.number === 4) typeUrl = reader.text(field);
    else if (field.number === 5) responseNonce = reader.text(field);
    else if (field.number === 6) nack = statusMessage(reader.inside(field));
  }
  return { typeUrl, versionInfo, responseNonce, names, nack, node };
}

/** Decodes a DeltaDiscoveryRequest. Throws CtlError invalid_argument. */
export function decodeDeltaRequest(bytes: Buffer): DeltaRequest {
  const reader = new WireReader(bytes);
  const subscribe: string[] = [];
  const unsubscribe: string[] = [];
  const initialVersions = new Map<string, string>();
  let typeUrl = '';
  let responseNonce = '';
  let nack: string | undefined;
  let node: Buffer | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) node = bytes.subarray(field.start, field.end);
    else if (field.number === 2) typeUrl = reader.text(field);
    else if (field.number === 3) subscribe.push(nameOf(reader, field, subscribe.length));
    else if (field.number === 4) unsubscribe.push(nameOf(reader, field, unsubscribe.length));
    else if (field.number === 5) readVersion(reader.inside(field), initialVersions);
    else if (field.number === 6) responseNonce = reader.text(field);
    else if (field.number === 7) nack = statusMessage(reader.inside(field));
  }
  return { typeUrl, responseNonce, subscribe, unsubscribe, initialVersions, nack, node };
}

/** An entry of `map<string, string>`: key 1, value 2. */
function readVersion(reader: WireReader, versions: Map<string, string>): void {
  let name = '';
  let version = '';
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) name = nameOf(reader, field, versions.size);
    else if (field.number === 2) version = reader.text(field);
  }
  versions.set(name, version);
}

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

/** Bytes of the gRPC frame prefix: compressed flag, then length (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). */
export const FRAME_PREFIX_BYTES = 5;

/** The length-prefixed gRPC message as chunks: own head, then the shared body. */
export function encodeResponse(message: ResponseMessage): readonly Uint8Array[] {
  // Fields may stand in any order; the head has all but `resources` (2).
  const fields: StringField[] = [
    { number: 1, text: message.version },
    { number: 4, text: message.typeUrl },
    { number: 5, text: message.nonce },
    ...message.removed.map((text) => ({ number: 6, text })),
  ];
  const head = encodeStrings(fields, FRAME_PREFIX_BYTES);
  let length = head.length - FRAME_PREFIX_BYTES;
  for (const chunk of message.body) length += chunk.length;
  head.writeUInt8(0, 0);
  head.writeUInt32BE(length, 1);
  return [head, ...message.body];
}

/** The resource as a field of a DeltaDiscoveryResponse. */
export function deltaField(resource: EncodedResource): Uint8Array {
  return resource.fragment;
}

/** The resource as a field of a DiscoveryResponse: the same bytes from the Any on. */
export function sotwField(resource: EncodedResource): Uint8Array {
  return resource.fragment.subarray(resource.anyOffset);
}
