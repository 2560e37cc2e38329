/** `key: null` in YAML means absent, as in protobuf's JSON form: such keys are removed before the schemas see them. */

/** The error for a restricting field without a value: without the field, more would be allowed. */
export const EMPTY_VALUE = 'expected a value, got null';

/** Maps in which a key without a value has a meaning: "this header must be present". */
const KEEP_UNDER: ReadonlySet<string> = new Set(['headers', 'withoutHeaders', 'queryParams']);
/** Parts of `headers` that are fields, not header names. */
const FIELDS_OF_HEADERS: ReadonlySet<string> = new Set(['request', 'response']);

/**
 * The value without keys that are null; the same object when there are none. Nulls in lists stay, and the schema
 * refuses them.
 */
export function withoutNulls(value: unknown): unknown {
  return hasNull(value) ? without(value, '') : value;
}

/** Most documents have none: looking is cheaper than copying. */
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

type Path = readonly (string | number)[];

/**
 * Path of the first null in a value that matches: one that {@link withoutNulls} removes, or one in a list. Each part of
 * the value is visited once, and only the path that is returned is copied.
 *
 * @param around path of the value, the beginning of the returned path
 * @param matches must not keep the path
 */
export function firstNull(value: unknown, around: Path, matches: (path: Path) => boolean): Path | undefined {
  return find(value, [...around], matches);
}

/**
 * @param path path of the value; after a match the path of the null, otherwise unchanged
 */
function find(value: unknown, path: (string | number)[], matches: (path: Path) => boolean): Path | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const keepsNulls = KEEP_UNDER.has(String(path.at(-1))) && !Array.isArray(value);
  for (const [key, item] of Array.isArray(value) ? value.entries() : Object.entries(value)) {
    path.push(key);
    const isKept = keepsNulls && !FIELDS_OF_HEADERS.has(String(key));
    const found = item === null ? (!isKept && matches(path) ? path : undefined) : find(item, path, matches);
    if (found !== undefined) return found;
    path.pop();
  }
  return undefined;
}
