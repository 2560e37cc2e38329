/**
 * Deep equality of plain data, and keeping the older of two equal values: in snapshots, the same object means
 * unchanged.
 */

/** Equality of plain data (objects, arrays, primitives). A member that is `undefined` equals an absent one. */
export function deepEqual(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => deepEqual(item, b[index]));
  }
  if (Array.isArray(b)) return false;
  return recordsEqual(a as Record<string, unknown>, b as Record<string, unknown>);
}

function recordsEqual(a: Record<string, unknown>, b: Record<string, unknown>): boolean {
  let members = 0;
  for (const key of Object.keys(a)) {
    if (a[key] === undefined) continue;
    members++;
    if (!deepEqual(a[key], b[key])) return false;
  }
  for (const key of Object.keys(b)) if (b[key] !== undefined) members--;
  return members === 0;
}

/** `before` when it equals `after`, else `after`. */
export function keepIfEqual<T>(before: T | undefined, after: T): T {
  return before !== undefined && deepEqual(before, after) ? before : after;
}
