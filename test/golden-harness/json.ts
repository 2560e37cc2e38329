/** Resources of Envoy as JSON. */
import type { JsonObject, JsonValue } from '../../src/protobuf/index.ts';

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The name of an endpoint resource is its field `cluster_name`. */
export function nameOf(resource: JsonObject): string {
  return String(resource.name ?? resource.cluster_name);
}
