/** Fingerprints: equal for resources that generation cannot tell apart, whatever the order of keys in the file. */
import { hash } from 'node:crypto';
import type { AnyResource, Kind, ResourceMeta } from '../kinds/types.ts';

/** 128 bits: collisions between versions of a resource are practically impossible, and keys stay short. */
const HEX_DIGITS = 32;

/** Hex digest of all that generation can read of a resource. */
export function fingerprintOf(kind: Kind, meta: ResourceMeta, content: unknown): string {
  return hash('sha256', JSON.stringify(ordered([kind, meta, content])), 'hex').slice(0, HEX_DIGITS);
}

/** The resource of CLUSTER_KINDS with the name of a remote cluster. */
export function inCluster(resource: AnyResource, cluster: string): AnyResource {
  const meta: ResourceMeta = { ...resource.meta, cluster };
  return { ...resource, meta, fingerprint: fingerprintOf(resource.kind, meta, resource.content) };
}

/**
 * The value with the keys of all objects sorted; the value itself if they are sorted already. `JSON.stringify` of the
 * sorted value is many times as fast as a custom serializer. The schemas accept no key `__proto__`.
 */
function ordered(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    let same = true;
    const items = value.map((item: unknown) => {
      const after = ordered(item);
      if (after !== item) same = false;
      return after;
    });
    return same ? value : items;
  }
  const keys = Object.keys(value);
  let same = sortInPlace(keys);
  const entries = value as Record<string, unknown>;
  const copy: Record<string, unknown> = {};
  for (const key of keys) {
    const before = entries[key];
    const after = ordered(before);
    copy[key] = after;
    if (after !== before) same = false;
  }
  return same ? value : copy;
}

/**
 * With more keys than this, insertion sort is slower than the general sort: only maps of labels or metadata have as
 * many.
 */
const FEW_KEYS = 32;

/**
 * Sorts by insertion: objects have few keys, mostly sorted.
 * @returns whether they were sorted
 */
function sortInPlace(keys: string[]): boolean {
  if (keys.length > FEW_KEYS) return sortMany(keys);
  let same = true;
  let last = '';
  for (let index = 0; index < keys.length; index++) {
    const key = keys[index] ?? '';
    if (key >= last) {
      last = key;
      continue;
    }
    let at = index;
    for (let before = keys[at - 1]; before !== undefined && before > key; before = keys[at - 1]) keys[at--] = before;
    keys[at] = key;
    same = false;
  }
  return same;
}

function sortMany(keys: string[]): boolean {
  if (keys.every((key, index) => index === 0 || key >= (keys[index - 1] ?? ''))) return true;
  keys.sort((one, other) => (one < other ? -1 : 1));
  return false;
}
