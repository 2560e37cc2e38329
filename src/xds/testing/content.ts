/** Test support: content in real bundles, and encoders and decoders of the messages of both variants. */
import { byXdsType, XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import { encodeFields, WireReader } from '../../protobuf/wire/index.ts';
import { emptyBundle, nextBundle } from '../../push/bundles/bundle.ts';
import { encodeResource } from '../../push/bundles/encode-resource.ts';
import type { Bundle, EncodedResource, Parts } from '../../push/types.ts';

const TYPES = XDS_TYPES;

function emptyParts(): Parts {
  return byXdsType((type) => [emptyBundle(type, `outbound/${type}`), emptyBundle(type, `inbound/${type}`)]);
}

/** The content of an engine for one proxy: two parts per type, changed name by name. */
export class Content {
  version = 1;
  /** Replaced as a whole, as by sessions. */
  parts: Parts = emptyParts();

  readonly partsOf = (type: XdsType): readonly Bundle[] => this.parts[type];

  /** Sets a resource's content (`undefined` deletes it). Names that begin with `in` belong to the inbound part. */
  set(type: XdsType, name: string, text: string | undefined, refs: readonly string[] = []): void {
    this.setAll(type, [[name, text]], refs);
  }

  setAll(
    type: XdsType,
    entries: readonly (readonly [string, string | undefined])[],
    refs: readonly string[] = [],
  ): void {
    const parts = [...this.partsOf(type)];
    for (const [index, prefixed] of [false, true].entries()) {
      const changes = new Map<string, EncodedResource | undefined>();
      for (const [name, text] of entries)
        if (name.startsWith('in') === prefixed)
          changes.set(name, text === undefined ? undefined : resource(type, name, text, refs));
      const bundle = parts[index];
      if (bundle !== undefined && changes.size > 0) parts[index] = nextBundle(bundle, changes);
    }
    // A new array only when something changed, as from sessions.
    this.parts = { ...this.parts, [type]: parts };
    this.version++;
  }

  /** Replaces all views by others with equal content. */
  moveViews(): void {
    for (const type of TYPES)
      this.parts = {
        ...this.parts,
        [type]: this.partsOf(type).map((bundle) =>
          nextBundle(
            emptyBundle(type, `${bundle.viewKey}'`),
            new Map(bundle.resources().map((one) => [one.name, one])),
          ),
        ),
      };
  }

  /** Name → version of a type. */
  versions(type: XdsType): Map<string, string> {
    return new Map(this.partsOf(type).flatMap((b) => b.resources().map((r) => [r.name, r.version] as const)));
  }

  /** Name → content of a type. */
  texts(type: XdsType): Map<string, string> {
    return new Map(this.partsOf(type).flatMap((b) => b.resources().map((r) => [r.name, textOf(r.fragment)] as const)));
  }
}

/** A resource whose message has its own name, as every xDS message, and whose version is its text. */
export function resource(type: XdsType, name: string, text: string, refs: readonly string[] = []): EncodedResource {
  const message = encodeFields([
    [1, name],
    [2, text],
  ]);
  return encodeResource(type, name, `v:${text}`, message, refs);
}

/** Text inside a fragment (a Delta field). */
function textOf(fragment: Uint8Array): string {
  const [one] = parseDelta(Buffer.from(fragment)).resources;
  return one?.text ?? '';
}

export interface ParsedResource {
  readonly name: string;
  readonly version: string;
  readonly text: string;
}

export interface ParsedResponse {
  version: string;
  typeUrl: string;
  nonce: string;
  readonly removed: string[];
  readonly resources: ParsedResource[];
}

function parseAny(reader: WireReader): { name: string; text: string } {
  const out = { name: '', text: '' };
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number !== 2) continue;
    const message = reader.inside(field);
    for (let inner = message.next(); inner !== undefined; inner = message.next()) {
      if (inner.number === 1) out.name = message.text(inner);
      else if (inner.number === 2) out.text = message.text(inner);
    }
  }
  return out;
}

function parseResponse(bytes: Buffer, resourceOf: (reader: WireReader) => ParsedResource): ParsedResponse {
  const out: ParsedResponse = { version: '', typeUrl: '', nonce: '', removed: [], resources: [] };
  const reader = new WireReader(bytes);
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) out.version = reader.text(field);
    else if (field.number === 2) out.resources.push(resourceOf(reader.inside(field)));
    else if (field.number === 4) out.typeUrl = reader.text(field);
    else if (field.number === 5) out.nonce = reader.text(field);
    else if (field.number === 6) out.removed.push(reader.text(field));
  }
  return out;
}

/** Decodes a DiscoveryResponse of test resources. */
export function parseSotw(bytes: Buffer): ParsedResponse {
  return parseResponse(bytes, (reader) => {
    const { name, text } = parseAny(reader);
    return { name, text, version: `v:${text}` };
  });
}

/** Decodes a DeltaDiscoveryResponse of test resources. */
export function parseDelta(bytes: Buffer): ParsedResponse {
  return parseResponse(bytes, (reader) => {
    let version = '';
    let text = '';
    let name = '';
    for (let field = reader.next(); field !== undefined; field = reader.next()) {
      if (field.number === 1) version = reader.text(field);
      else if (field.number === 2) text = parseAny(reader.inside(field)).text;
      else if (field.number === 3) name = reader.text(field);
    }
    return { name, version, text };
  });
}

/** A message field around encoded bytes. */
export function nested(number: number, bytes: Uint8Array): Buffer {
  return encodeFields([[number, bytes]]);
}

/** google.protobuf.Struct with string values, or with nested structs. */
export interface StructValue {
  readonly [key: string]: string | number | boolean | null | StructValue;
}

export function encodeStruct(value: StructValue): Buffer {
  return Buffer.concat(
    Object.entries(value).map(([key, one]) =>
      nested(1, Buffer.concat([encodeFields([[1, key]]), nested(2, encodeValue(one))])),
    ),
  );
}

function encodeValue(value: StructValue[string]): Buffer {
  if (value === null) return Buffer.from([8, 0]);
  if (typeof value === 'string') return encodeFields([[3, value]]);
  if (typeof value === 'boolean') return Buffer.from([0x20, value ? 1 : 0]);
  if (typeof value === 'number') {
    const out = Buffer.alloc(9);
    out[0] = 0x11;
    out.writeDoubleLE(value, 1);
    return out;
  }
  return nested(5, encodeStruct(value));
}

/** An encoded Node. */
export function encodeNode(id: string, metadata: StructValue = {}, more: Buffer = Buffer.alloc(0)): Buffer {
  return Buffer.concat([encodeFields([[1, id]]), nested(3, encodeStruct(metadata)), more]);
}

export const SIDECAR_ID = 'sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local';

export interface SotwFields {
  readonly version?: string;
  readonly node?: Buffer;
  readonly names?: readonly string[];
  readonly typeUrl: string;
  readonly nonce?: string;
  readonly error?: string;
}

function textField(number: number, text: string | undefined): Buffer {
  return text === undefined || text === '' ? Buffer.alloc(0) : encodeFields([[number, text]]);
}

/** An encoded DiscoveryRequest. */
export function encodeSotwRequest(fields: SotwFields): Buffer {
  return Buffer.concat([
    textField(1, fields.version),
    fields.node === undefined ? Buffer.alloc(0) : nested(2, fields.node),
    encodeFields((fields.names ?? []).map((text) => [3, text])),
    textField(4, fields.typeUrl),
    textField(5, fields.nonce),
    fields.error === undefined ? Buffer.alloc(0) : nested(6, encodeFields([[2, fields.error]])),
  ]);
}

export interface DeltaFields {
  readonly node?: Buffer;
  readonly typeUrl: string;
  readonly subscribe?: readonly string[];
  readonly unsubscribe?: readonly string[];
  readonly initial?: ReadonlyMap<string, string>;
  readonly nonce?: string;
  readonly error?: string;
}

/** An encoded DeltaDiscoveryRequest. */
export function encodeDeltaRequest(fields: DeltaFields): Buffer {
  return Buffer.concat([
    fields.node === undefined ? Buffer.alloc(0) : nested(1, fields.node),
    textField(2, fields.typeUrl),
    encodeFields((fields.subscribe ?? []).map((text) => [3, text])),
    encodeFields((fields.unsubscribe ?? []).map((text) => [4, text])),
    ...[...(fields.initial ?? [])].map(([name, version]) =>
      nested(
        5,
        encodeFields([
          [1, name],
          [2, version],
        ]),
      ),
    ),
    textField(6, fields.nonce),
    fields.error === undefined ? Buffer.alloc(0) : nested(7, encodeFields([[2, fields.error]])),
  ]);
}
