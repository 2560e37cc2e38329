/** Objects of parsed JSON and YAML. */

/** True for an object with named fields; false for null and for an array. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
