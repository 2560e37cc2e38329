/** `key: null` in YAML says nothing, as in protobuf's JSON form: such keys are left out before the schemas look. */

/** Maps in which a key with no value means something: "this header must be present". */
const KEEP_UNDER: ReadonlySet<string> = new Set(['headers', 'withoutHeaders', 'queryParams']);
/** Parts of `headers` that are fields, not header names. */
const FIELDS_OF_HEADERS: ReadonlySet<string> = new Set(['request', 'response']);

/**
 * The value without keys that are null; the same object when there are none. Nulls in lists stay, for the schema to
 * refuse.
 */
export function withoutNulls(value: unknown): unknown {
  return hasNull(value) ? without(value, '') : value;
}

/** Most documents have none: looking is cheaper than copying what is kept. */
function hasNull(value: unknown): boolean {
  if (typeof value !== 'object') return false;
  if (value === null) return true;
  if (Array.isArray(value)) return value.some(hasNull);
  const entries = value as Record<string, unknown>;
  for (const key in entries) if (hasNull(entries[key])) return true;
  return false;
}

function without(value: unknown, under: string): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    const items = value.map((item) => without(item, ''));
    return items.every((item, index) => item === value[index]) ? value : items;
  }
  let changed = false;
  const kept: [string, unknown][] = [];
  for (const [key, item] of Object.entries(value)) {
    if (item === null && !(KEEP_UNDER.has(under) && !FIELDS_OF_HEADERS.has(key))) {
      changed = true;
      continue;
    }
    const clean = without(item, key);
    if (clean !== item) changed = true;
    kept.push([key, clean]);
  }
  return changed ? Object.fromEntries(kept) : value;
}

/** Where the nulls in a value are that {@link withoutNulls} leaves out, and those in lists. */
export function* pathsToNulls(value: unknown, under = ''): Generator<(string | number)[]> {
  if (typeof value !== 'object' || value === null || !hasNull(value)) return;
  for (const [key, item] of Array.isArray(value) ? value.entries() : Object.entries(value)) {
    const isKept = typeof key === 'string' && KEEP_UNDER.has(under) && !FIELDS_OF_HEADERS.has(key);
    if (item === null && !isKept) yield [key];
    for (const below of pathsToNulls(item, String(key))) yield [key, ...below];
  }
}
