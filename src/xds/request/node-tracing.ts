/**
 * `tracing` of a proxy's own configuration, which agents send as node metadata PROXY_CONFIG. A proxy only decides about
 * its own spans. Invalid values are ignored, because tracing must not prevent a proxy from getting its configuration.
 */
import type { OwnTracing } from '../../core/tracing.ts';
import type { JsonValue } from '../../protobuf/index.ts';
import { WireReader } from '../../protobuf/wire/index.ts';
import { parseProxyConfig } from '../../resources/index.ts';

/** Maximum size of an encoded `tracing` that is read: enough for 64 tags with long values. */
export const MAX_TRACING_BYTES = 32 * 1024;
/** `tracing` has four levels of objects; deeper ones are not valid configuration. */
const MAX_DEPTH = 8;

/** @param value an encoded `google.protobuf.Value` */
export function readTracing(value: Buffer): OwnTracing | undefined {
  if (value.length > MAX_TRACING_BYTES) return undefined;
  const data = readValue(new WireReader(value), 0);
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return undefined;
  const parsed = parseProxyConfig({ tracing: data });
  if ('problem' in parsed || parsed.value.tracing === undefined) return undefined;
  const { sampling, maxPathTagLength, customTags, enableIstioTags } = parsed.value.tracing;
  return {
    ...(sampling !== undefined && { sampling }),
    ...(maxPathTagLength !== undefined && { maxPathTagLength }),
    ...(customTags !== undefined && { customTags }),
    ...(enableIstioTags !== undefined && { enableIstioTags }),
  };
}

/** Field numbers of `google.protobuf.Value`. */
const VALUE = { number: 2, string: 3, boolean: 4, struct: 5, list: 6 } as const;

/** The last kind of a Value is used, as for every oneof. Values that are nested too deep are null. */
function readValue(reader: WireReader, depth: number): JsonValue {
  let value: JsonValue = null;
  if (depth > MAX_DEPTH) return value;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === VALUE.number && field.end - field.start === 8) value = reader.bytes.readDoubleLE(field.start);
    else if (field.number === VALUE.string) value = reader.text(field);
    else if (field.number === VALUE.boolean) value = field.value !== 0;
    else if (field.number === VALUE.struct) value = readStruct(reader.inside(field), depth);
    else if (field.number === VALUE.list) value = readList(reader.inside(field), depth);
    else value = null;
  }
  return value;
}

function readStruct(reader: WireReader, depth: number): JsonValue {
  const entries: [string, JsonValue][] = [];
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number !== 1) continue;
    const entry = reader.inside(field);
    let key = '';
    let value: JsonValue = null;
    for (let part = entry.next(); part !== undefined; part = entry.next()) {
      if (part.number === 1) key = entry.text(part);
      else if (part.number === 2) value = readValue(entry.inside(part), depth + 1);
    }
    entries.push([key, value]);
  }
  return Object.fromEntries(entries);
}

function readList(reader: WireReader, depth: number): JsonValue {
  const values: JsonValue[] = [];
  for (let field = reader.next(); field !== undefined; field = reader.next())
    if (field.number === 1) values.push(readValue(reader.inside(field), depth + 1));
  return values;
}
