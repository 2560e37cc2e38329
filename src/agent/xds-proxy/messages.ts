/**
 * Reads and writes the discovery messages of both variants as far as the proxy needs them. Resources are located, not
 * decoded: they stay slices of the message in which they arrived.
 * Source: envoy/service/discovery/v3/discovery.proto
 */
import { xdsTypeOfUrl } from '../../core/xds-types.ts';
import { encodeFields, type FieldToWrite, type WireField, WireReader } from '../../protobuf/wire/index.ts';

/** The variant of the protocol: State of the World or Delta. */
export type Variant = 'sotw' | 'delta';

/** The name that subscribes to all resources of a type. */
export const WILDCARD = '*';

/** A request; lists that the variant does not support are empty. */
export interface DiscoveryRequest {
  readonly typeUrl: string;
  /** Empty when the request does not respond to a response. */
  readonly nonce: string;
  /** The message of `error_detail`; undefined unless the request is a NACK. */
  readonly nack: string | undefined;
  /** The encoded Node, when sent: a slice of the message. */
  readonly node: Buffer | undefined;
  /** Delta: names to add. State of the World: the names of the whole subscription. */
  readonly names: readonly string[];
  /** Delta: names to remove. */
  readonly unsubscribe: readonly string[];
  /** Delta: versions that the client received on an earlier stream, by name. */
  readonly initialVersions: ReadonlyMap<string, string>;
  /** State of the World: the version that the client has. */
  readonly version: string;
}

/** A resource of a response. */
export interface LocatedResource {
  /** State of the World: '' for types that Envoy does not define. */
  readonly name: string;
  readonly version: string;
  /**
   * A slice of the message: the content of its field of a response. Delta: `envoy.service.discovery.v3.Resource`; State
   * of the World: `google.protobuf.Any`.
   */
  readonly bytes: Buffer;
}

export interface DiscoveryResponse {
  readonly typeUrl: string;
  readonly nonce: string;
  readonly version: string;
  readonly resources: readonly LocatedResource[];
  /** Delta: names of removed resources. */
  readonly removed: readonly string[];
}

const NO_VERSIONS: ReadonlyMap<string, string> = new Map();

/** Throws CtlError invalid_argument for bytes that are not such a message; so do the other readers. */
export function readRequest(variant: Variant, bytes: Buffer): DiscoveryRequest {
  return variant === 'delta' ? readDeltaRequest(bytes) : readSotwRequest(bytes);
}

function readSotwRequest(bytes: Buffer): DiscoveryRequest {
  const reader = new WireReader(bytes);
  const names: string[] = [];
  let [version, typeUrl, nonce] = ['', '', ''];
  let nack: string | undefined;
  let node: Buffer | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) version = reader.text(field);
    else if (field.number === 2) node = reader.content(field);
    else if (field.number === 3) names.push(reader.text(field));
    else if (field.number === 4) typeUrl = reader.text(field);
    else if (field.number === 5) nonce = reader.text(field);
    else if (field.number === 6) nack = textIn(reader, field, 2);
  }
  return { typeUrl, nonce, nack, node, names, unsubscribe: [], initialVersions: NO_VERSIONS, version };
}

function readDeltaRequest(bytes: Buffer): DiscoveryRequest {
  const reader = new WireReader(bytes);
  const names: string[] = [];
  const unsubscribe: string[] = [];
  const initialVersions = new Map<string, string>();
  let [typeUrl, nonce] = ['', ''];
  let nack: string | undefined;
  let node: Buffer | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) node = reader.content(field);
    else if (field.number === 2) typeUrl = reader.text(field);
    else if (field.number === 3) names.push(reader.text(field));
    else if (field.number === 4) unsubscribe.push(reader.text(field));
    else if (field.number === 5) initialVersions.set(textIn(reader, field, 1), textIn(reader, field, 2));
    else if (field.number === 6) nonce = reader.text(field);
    else if (field.number === 7) nack = textIn(reader, field, 2);
  }
  return { typeUrl, nonce, nack, node, names, unsubscribe, initialVersions, version: '' };
}

/** The last string field of that number in a nested message; '' when there is none. */
function textIn(reader: WireReader, outer: WireField, number: number): string {
  const inner = reader.inside(outer);
  let text = '';
  for (let field = inner.next(); field !== undefined; field = inner.next())
    if (field.number === number) text = inner.text(field);
  return text;
}

export function readResponse(variant: Variant, bytes: Buffer): DiscoveryResponse {
  const reader = new WireReader(bytes);
  const found: Buffer[] = [];
  const removed: string[] = [];
  let [version, typeUrl, nonce] = ['', '', ''];
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) version = reader.text(field);
    else if (field.number === 2) found.push(reader.content(field));
    else if (field.number === 4) typeUrl = reader.text(field);
    else if (field.number === 5) nonce = reader.text(field);
    else if (field.number === 6 && variant === 'delta') removed.push(reader.text(field));
  }
  const type = xdsTypeOfUrl(typeUrl);
  // A name table has no name itself.
  const isNamed = type !== undefined && type !== 'nds';
  const resources = found.map((each) =>
    variant === 'delta' ? deltaResource(each) : { name: isNamed ? nameOfAny(each) : '', version, bytes: each },
  );
  return { typeUrl, nonce, version, resources, removed };
}

function deltaResource(bytes: Buffer): LocatedResource {
  const reader = new WireReader(bytes);
  let [name, version] = ['', ''];
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) version = reader.text(field);
    else if (field.number === 3) name = reader.text(field);
  }
  return { name, version, bytes };
}

const RESOURCE_TYPE = 'type.googleapis.com/envoy.service.discovery.v3.Resource';

/** The name of a resource in an Any. In every type of `core/xds-types.ts` it is the string of field 1. */
function nameOfAny(bytes: Buffer): string {
  const { typeUrl, value } = readAny(bytes);
  const number = typeUrl === RESOURCE_TYPE ? 3 : 1;
  const reader = new WireReader(value);
  for (let field = reader.next(); field !== undefined; field = reader.next())
    if (field.number === number) return reader.text(field);
  return '';
}

/** `google.protobuf.Any`. */
function readAny(bytes: Buffer): { readonly typeUrl: string; readonly value: Buffer } {
  const reader = new WireReader(bytes);
  let typeUrl = '';
  let value: Buffer = Buffer.alloc(0);
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) typeUrl = reader.text(field);
    else if (field.number === 2) value = reader.content(field);
  }
  return { typeUrl, value };
}

/** The encoded message of a resource; empty for one without. */
export function resourceValue(variant: Variant, { bytes }: LocatedResource): Buffer {
  if (variant === 'sotw') return readAny(bytes).value;
  const reader = new WireReader(bytes);
  for (let field = reader.next(); field !== undefined; field = reader.next())
    if (field.number === 2) return readAny(reader.content(field)).value;
  return Buffer.alloc(0);
}

/** `id` and `user_agent_name` of an encoded Node. */
export function readNode(bytes: Buffer): { readonly id: string; readonly userAgent: string } {
  const reader = new WireReader(bytes);
  let [id, userAgent] = ['', ''];
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) id = reader.text(field);
    else if (field.number === 6) userAgent = reader.text(field);
  }
  return { id, userAgent };
}

/** A request to write; omitted fields have their defaults. */
export interface RequestToWrite {
  readonly typeUrl: string;
  readonly names?: Iterable<string>;
  readonly initialVersions?: Iterable<readonly [name: string, version: string]>;
  readonly version?: string;
  readonly nonce?: string;
  /** The message of a NACK, or of a report that is an error. */
  readonly error?: string | undefined;
  readonly node?: Buffer | undefined;
}

/** google.rpc.Code.INVALID_ARGUMENT, with which Envoy rejects resources. */
const INVALID_ARGUMENT = 3;

export function writeRequest(variant: Variant, request: RequestToWrite): Buffer {
  const { typeUrl, names = [], initialVersions = [], version = '', nonce = '', error, node } = request;
  const fields: FieldToWrite[] = [];
  const delta = variant === 'delta';
  if (!delta && version !== '') fields.push([1, version]);
  if (node !== undefined) fields.push([delta ? 1 : 2, node]);
  fields.push([delta ? 2 : 4, typeUrl]);
  for (const name of names) fields.push([3, name]);
  if (delta)
    for (const [name, known] of initialVersions)
      fields.push([
        5,
        encodeFields([
          [1, name],
          [2, known],
        ]),
      ]);
  if (nonce !== '') fields.push([delta ? 6 : 5, nonce]);
  if (error !== undefined)
    fields.push([
      delta ? 7 : 6,
      encodeFields([
        [1, INVALID_ARGUMENT],
        [2, error],
      ]),
    ]);
  return encodeFields(fields);
}

/** The request with the node in front. */
export function withNode(variant: Variant, bytes: Buffer, node: Buffer): Buffer {
  return Buffer.concat([encodeFields([[variant === 'delta' ? 1 : 2, node]]), bytes]);
}

/** The request with another nonce: of a field that occurs twice, the last value counts. */
export function withNonce(variant: Variant, bytes: Buffer, nonce: string): Buffer {
  return Buffer.concat([bytes, encodeFields([[variant === 'delta' ? 6 : 5, nonce]])]);
}

/** Sets the nonce of a response of either variant. */
export function withResponseNonce(bytes: Buffer, nonce: string): Buffer {
  return Buffer.concat([bytes, encodeFields([[5, nonce]])]);
}

/** The response of Delta with more names of removed resources. */
export function withRemoved(bytes: Buffer, names: readonly string[]): Buffer {
  return Buffer.concat([bytes, encodeFields(names.map((name) => [6, name] as const))]);
}

export interface ResponseToWrite {
  readonly typeUrl: string;
  readonly version: string;
  readonly nonce: string;
  /** As in `LocatedResource`. */
  readonly resources: readonly Buffer[];
  /** Delta only. */
  readonly removed?: readonly string[];
}

export function writeResponse({ typeUrl, version, nonce, resources, removed = [] }: ResponseToWrite): Buffer {
  return encodeFields([
    [1, version],
    ...resources.map((bytes) => [2, bytes] as const),
    [4, typeUrl],
    [5, nonce],
    ...removed.map((name) => [6, name] as const),
  ]);
}
