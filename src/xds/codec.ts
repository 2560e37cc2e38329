/**
 * Requests in, response frames out. Requests are decoded field by field with limits (the port may be open to anyone); responses
 * are a head of a few bytes made per stream, followed by encoded resources that all streams share.
 * Source: envoy/service/discovery/v3/discovery.proto
 */
import { MESSAGE_PREFIX_BYTES } from '../grpc/index.ts';
import type { EncodedResource } from '../push/types.ts';
import type { FormIndex } from './known-lists.ts';
import type { KnownRun, ListFields } from './message-assembly.ts';
import type { NameSet } from './name-set.ts';
import { ListField, NAMES, VERSIONS, type VersionMap } from './request-lists.ts';
import { encodeStrings, type StringField, WireReader } from './wire.ts';

/** An Envoy's error message is kept to this many characters: it can quote a whole listener. */
export const MAX_NACK_MESSAGE = 4096;

export interface SotwRequest {
  readonly typeUrl: string;
  readonly versionInfo: string;
  readonly responseNonce: string;
  readonly names: NameSet;
  /** Message of `error_detail`; undefined: this is no NACK. */
  readonly nack: string | undefined;
  /** The encoded Node, when sent; a copy. */
  readonly node: Buffer | undefined;
}

export interface DeltaRequest {
  readonly typeUrl: string;
  readonly responseNonce: string;
  readonly subscribe: NameSet;
  readonly unsubscribe: NameSet;
  readonly initialVersions: VersionMap;
  readonly nack: string | undefined;
  readonly node: Buffer | undefined;
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

/** Lists of a DiscoveryRequest: resource_names. */
export const SOTW_LISTS: ListFields = new Map([[3, NAMES.known]]);

/**
 * Decodes a DiscoveryRequest from its bytes without `known`, which are some of its lists. Keeps nothing of the bytes. Throws CtlError
 * invalid_argument.
 */
export function decodeSotwRequest(bytes: Buffer, known: readonly KnownRun[] = []): SotwRequest {
  const reader = new WireReader(bytes);
  const names = new ListField(NAMES);
  for (const run of known) names.takeKnown(run);
  let typeUrl = '';
  let versionInfo = '';
  let responseNonce = '';
  let nack: string | undefined;
  let node: Buffer | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) versionInfo = reader.text(field);
    else if (field.number === 2) node = Buffer.from(bytes.subarray(field.start, field.end));
    else if (field.number === 3) names.take(reader, field);
    else if (field.number === 4) typeUrl = reader.text(field);
    else if (field.number === 5) responseNonce = reader.text(field);
    else if (field.number === 6) nack = statusMessage(reader.inside(field));
  }
  return { typeUrl, versionInfo, responseNonce, names: names.value(bytes), nack, node };
}

/** Lists of a DeltaDiscoveryRequest: resource_names_subscribe, resource_names_unsubscribe, initial_resource_versions. */
export const DELTA_LISTS: ListFields = new Map<number, FormIndex>([
  [3, NAMES.known],
  [4, NAMES.known],
  [5, VERSIONS.known],
]);

/**
 * Decodes a DeltaDiscoveryRequest from its bytes without `known`, which are some of its lists. Keeps nothing of the bytes. Throws CtlError
 * invalid_argument.
 */
export function decodeDeltaRequest(bytes: Buffer, known: readonly KnownRun[] = []): DeltaRequest {
  const reader = new WireReader(bytes);
  const subscribe = new ListField(NAMES);
  const unsubscribe = new ListField(NAMES);
  const versions = new ListField(VERSIONS);
  for (const run of known)
    if (run.field === 3) subscribe.takeKnown(run);
    else if (run.field === 4) unsubscribe.takeKnown(run);
    else versions.takeKnown(run);
  let typeUrl = '';
  let responseNonce = '';
  let nack: string | undefined;
  let node: Buffer | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) node = Buffer.from(bytes.subarray(field.start, field.end));
    else if (field.number === 2) typeUrl = reader.text(field);
    else if (field.number === 3) subscribe.take(reader, field);
    else if (field.number === 4) unsubscribe.take(reader, field);
    else if (field.number === 5) versions.take(reader, field);
    else if (field.number === 6) responseNonce = reader.text(field);
    else if (field.number === 7) nack = statusMessage(reader.inside(field));
  }
  return {
    typeUrl,
    responseNonce,
    subscribe: subscribe.value(bytes),
    unsubscribe: unsubscribe.value(bytes),
    initialVersions: versions.value(bytes),
    nack,
    node,
  };
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

/** The resource as a field of a DeltaDiscoveryResponse. */
export function deltaField(resource: EncodedResource): Uint8Array {
  return resource.fragment;
}

/** The resource as a field of a DiscoveryResponse: the same bytes from the Any on. */
export function sotwField(resource: EncodedResource): Uint8Array {
  return resource.fragment.subarray(resource.anyOffset);
}
