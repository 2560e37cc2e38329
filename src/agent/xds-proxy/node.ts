/** The node of the bootstrap as the message that the agent's own stream begins with. */
import { isObject } from '../../core/objects.ts';
import { envoy } from '../../protobuf/agent/index.ts';
import type { JsonObject, JsonValue } from '../../protobuf/index.ts';

type Locality = Partial<Record<'region' | 'zone' | 'sub_zone', string>>;

/** Encodes `envoy.config.core.v3.Node`. @param node its JSON form, as `nodeOf` makes it */
export function encodeNode(node: JsonObject): Buffer {
  const { id, cluster, metadata, locality } = node;
  const { region, zone, sub_zone: subZone }: Locality = isObject(locality) ? locality : {};
  const bytes = envoy.config.core.v3.Node.encode({
    id: String(id),
    cluster: String(cluster),
    metadata: isObject(metadata) ? toStruct(metadata) : null,
    locality: isObject(locality) ? { region, zone, subZone } : null,
    // Envoy sends `envoy` here.
    userAgentName: 'ctl-agent',
  }).finish();
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

type Struct = NonNullable<Parameters<typeof envoy.config.core.v3.Node.encode>[0]['metadata']>;
type Value = NonNullable<Struct['fields']>[string];

function toStruct(object: JsonObject): Struct {
  return { fields: Object.fromEntries(Object.entries(object).map(([key, value]) => [key, structValue(value)])) };
}

function structValue(value: JsonValue): Value {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'number') return { numberValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  if (value === null) return { nullValue: 0 };
  if (Array.isArray(value)) return { listValue: { values: value.map(structValue) } };
  return { structValue: toStruct(value as JsonObject) };
}
