/**
 * Detects ill-formed strings, which contain half of a UTF-16 surrogate pair. Envoy messages cannot contain them, and
 * they are invisible in logs.
 */
import type { ValidationError } from './issues.ts';

/** The first ill-formed key or string in a document; undefined if there is none. */
export function brokenText(document: unknown): ValidationError | undefined {
  // Nearly all documents are well formed: the position is determined only for ill-formed ones.
  if (isWhole(document)) return undefined;
  return { path: pathToBroken(document) ?? [], message: 'expected well-formed Unicode: surrogates must be in pairs' };
}

function isWhole(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isWhole);
  const entries = value as Record<string, unknown>;
  for (const key in entries) if (!key.isWellFormed() || !isWhole(entries[key])) return false;
  return true;
}

function pathToBroken(value: unknown): (string | number)[] | undefined {
  if (typeof value === 'string') return value.isWellFormed() ? undefined : [];
  if (typeof value !== 'object' || value === null) return undefined;
  const entries = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  for (const [key, item] of entries) {
    if (typeof key === 'string' && !key.isWellFormed()) return [key];
    const below = pathToBroken(item);
    if (below !== undefined) return [key, ...below];
  }
  return undefined;
}
