/**
 * Reads and writes the messages of the agent: those of the certificate service (proto/mesh/v1/auth/ca.proto), of the
 * discovery protocol (envoy/service/discovery/v3/discovery.proto) and Envoy's Secret
 * (envoy/extensions/transport_sockets/tls/v3/secret.proto). Generated code for them would need too much memory. Tests
 * compare the field numbers with the generated code.
 */
import { XDS } from '../../core/xds-types.ts';
import { encodeFields, type FieldToWrite, LENGTH_DELIMITED, WireReader } from '../../protobuf/wire/index.ts';
import type { WorkloadSecrets } from '../types.ts';

export const SECRET_TYPE = XDS.sds.url;

/** The fields of a DiscoveryRequest that a server of secrets needs. */
export interface SotwRequest {
  readonly typeUrl: string;
  readonly names: readonly string[];
  readonly nonce: string;
  /** The error message, if the response of that nonce was rejected. */
  readonly error: string | undefined;
}

/** The fields of a DeltaDiscoveryRequest that a server of secrets needs. */
export interface DeltaRequest {
  readonly typeUrl: string;
  readonly subscribe: readonly string[];
  readonly unsubscribe: readonly string[];
  /** Versions that the client received on an earlier stream, by name. */
  readonly initialVersions: ReadonlyMap<string, string>;
  readonly nonce: string;
  readonly error: string | undefined;
}

/** An encoded Secret; equal versions mean equal content. */
export interface SecretResource {
  readonly name: string;
  readonly version: string;
  readonly bytes: Uint8Array;
}

/** MeshCertificateRequest. */
export function certificateRequest(csr: string, lifetimeSeconds: number): Uint8Array {
  return message([
    [1, csr],
    [3, lifetimeSeconds],
  ]);
}

/** PEM texts of MeshCertificateResponse and TrustBundleResponse, which have the same fields. */
export function pemList(bytes: Uint8Array): string[] {
  return texts(contentsOf(bytes), 1);
}

export function sotwRequest(bytes: Uint8Array): SotwRequest {
  const found = contentsOf(bytes);
  return { typeUrl: text(found, 4), names: texts(found, 3), nonce: text(found, 5), error: errorDetail(found, 6) };
}

export function deltaRequest(bytes: Uint8Array): DeltaRequest {
  const found = contentsOf(bytes);
  const initialVersions = (found.get(5) ?? []).map((entry) => {
    const pair = contentsOf(entry);
    return [text(pair, 1), text(pair, 2)] as const;
  });
  return {
    typeUrl: text(found, 2),
    subscribe: texts(found, 3),
    unsubscribe: texts(found, 4),
    initialVersions: new Map(initialVersions),
    nonce: text(found, 6),
    error: errorDetail(found, 7),
  };
}

/** DiscoveryResponse. */
export function sotwResponse(resources: readonly SecretResource[], version: string, nonce: string): Uint8Array {
  return message([
    [1, version],
    ...resources.map(({ bytes }) => [2, any(bytes)] as const),
    [4, SECRET_TYPE],
    [5, nonce],
  ]);
}

/** DeltaDiscoveryResponse. */
export function deltaResponse(
  resources: readonly SecretResource[],
  removed: readonly string[],
  nonce: string,
): Uint8Array {
  const encoded = resources.map(({ name, version, bytes }) =>
    message([
      [1, version],
      [2, any(bytes)],
      [3, name],
    ]),
  );
  return message([
    ...encoded.map((resource) => [2, resource] as const),
    [4, SECRET_TYPE],
    [5, nonce],
    ...removed.map((name) => [6, name] as const),
  ]);
}

/** A Secret with a key and its chain. */
export function certificateSecret(
  name: string,
  { chain, key }: Pick<WorkloadSecrets['certificate'], 'chain' | 'key'>,
): Uint8Array {
  return message([
    [1, name],
    [
      2,
      message([
        [1, inline(chain)],
        [2, inline(key)],
      ]),
    ],
  ]);
}

/** A Secret with trusted certificates, and a list of revoked ones. */
export function authoritiesSecret(name: string, roots: string, crl?: string): Uint8Array {
  return message([
    [1, name],
    [4, message([[1, inline(roots)], ...(crl === undefined ? [] : [[7, inline(crl)] as const])])],
  ]);
}

/** envoy.config.core.v3.DataSource with `inline_bytes`. */
function inline(pem: string): Uint8Array {
  return message([[2, Buffer.from(pem)]]);
}

function any(bytes: Uint8Array): Uint8Array {
  return message([
    [1, SECRET_TYPE],
    [2, bytes],
  ]);
}

/** The message of a google.rpc.Status; its presence alone is a rejection. */
function errorDetail(found: Contents, field: number): string | undefined {
  const status = found.get(field)?.at(-1);
  return status === undefined ? undefined : text(contentsOf(status), 2);
}

/** A field to write; one that is undefined, 0 or '' is left out, as proto3 does. */
type OptionalField = readonly [field: number, value: FieldToWrite[1] | undefined];

function message(fields: readonly OptionalField[]): Buffer {
  return encodeFields(fields.filter((field): field is FieldToWrite => Boolean(field[1])));
}

/** The strings, bytes and messages in a message, by field number. */
type Contents = ReadonlyMap<number, readonly Buffer[]>;

/** Throws CtlError invalid_argument for bytes that are no protobuf message. */
function contentsOf(bytes: Uint8Array): Contents {
  const contents = new Map<number, Buffer[]>();
  const reader = new WireReader(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.wireType !== LENGTH_DELIMITED) continue;
    const values = contents.get(field.number);
    if (values === undefined) contents.set(field.number, [reader.content(field)]);
    else values.push(reader.content(field));
  }
  return contents;
}

function texts(contents: Contents, field: number): string[] {
  return (contents.get(field) ?? []).map((bytes) => bytes.toString());
}

/** The last value of the field; '' when there is none. */
function text(contents: Contents, field: number): string {
  return contents.get(field)?.at(-1)?.toString() ?? '';
}
