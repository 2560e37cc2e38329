/** Types of parsed JSON data. */
import type { JsonObject } from '../protobuf/index.ts';

/** True for an object, but not for an array or null. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
