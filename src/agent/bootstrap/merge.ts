/**
 * MESH_BOOTSTRAP_OVERRIDE: a partial bootstrap that is merged into the whole one as Envoy itself merges (protobuf's
 * MergeFrom, which `--config-yaml` uses): objects are merged key by key, lists are appended, other values are replaced.
 * So a file can add a static cluster or a stats sink without repeating the rest.
 */
import { isObject } from '../../core/objects.ts';
import type { JsonObject, JsonValue } from '../../protobuf/index.ts';

/** The bootstrap with an override. Envoy refuses an eviction interval that is not a multiple of the flush interval. */
export function overriddenBootstrap(base: JsonObject, override: JsonObject): JsonObject {
  const { stats_eviction_interval: _, ...others } = base;
  return mergeBootstrap(override.stats_flush_interval === undefined ? base : others, override);
}

export function mergeBootstrap(base: JsonObject, override: JsonObject): JsonObject {
  const merged: Record<string, JsonValue> = {};
  for (const [key, value] of Object.entries(base)) if (value !== undefined) merged[key] = value;
  for (const [key, value] of Object.entries(override)) {
    if (value === undefined || value === null) continue;
    const before = merged[key];
    if (isObject(before) && isObject(value)) merged[key] = mergeBootstrap(before, value);
    else if (Array.isArray(before) && Array.isArray(value)) merged[key] = [...before, ...value];
    else merged[key] = value;
  }
  return merged;
}
