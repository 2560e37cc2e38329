/** Plain JSON data, told apart. */
import type { JsonObject } from '../protobuf/index.ts';

/** True for an object that is no list and not null. Data that was parsed holds nothing but JSON. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
