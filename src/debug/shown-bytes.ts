/** Encoded messages without secrets: what debug pages show as JSON, in binary form. */
import { isObject } from '../core/objects.ts';
import { REDACTED } from '../core/redact.ts';
import { XDS, type XdsType } from '../core/xds-types.ts';
import { fromProtoJson } from '../protobuf/index.ts';
import type { EncodedResource } from '../push/index.ts';
import { jsonPieces } from './json-pieces.ts';
import { decoded } from './proxies.ts';

/** What stands for an extension that is not shown. */
const NOT_SHOWN = { '@type': 'type.googleapis.com/google.protobuf.StringValue', value: REDACTED };

/** The message of a resource without what `decoded` leaves out. */
export function shownBytes(type: XdsType, resource: EncodedResource): Uint8Array {
  const json: unknown = JSON.parse([...jsonPieces(decoded(type, resource))].join(''));
  return fromProtoJson(XDS[type].message, readable(json));
}

/** An Any whose content is redacted as a whole has no fields that could be read back. */
function readable(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(readable);
  if (!isObject(json)) return json;
  if ('@type' in json && Reflect.get(json, 'value') === REDACTED) return NOT_SHOWN;
  return Object.fromEntries(Object.entries(json).map(([key, value]) => [key, readable(value)]));
}
