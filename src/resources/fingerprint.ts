/** Fingerprints: equal for resources that generation cannot tell apart, whatever the order of keys in the file. */
import { hash } from 'node:crypto';
import type { Kind, ResourceMeta } from './types.ts';

/** 128 bits: collisions between a resource's versions are out of question, and keys stay short. */
const HEX_DIGITS = 32;

/** Hex digest of all that generation can read of a resource. */
export function fingerprintOf(kind: Kind, meta: ResourceMeta, content: unknown): string {
  return hash('sha256', canonicalJson([kind, meta, content]), 'hex').slice(0, HEX_DIGITS);
}

/** JSON with sorted keys and without `undefined`. */
function canonicalJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonicalJson(item)}`).join(',')}}`;
}
