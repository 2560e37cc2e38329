/**
 * Text that is none: half of a character that UTF-16 writes as two. No message of Envoy's can hold it, and it looks
 * like nothing in a log.
 */
import type { Fault } from './issues.ts';

/** The first text in a document, key or value, that is no text; undefined when all are. */
export function brokenText(document: unknown): Fault | undefined {
  // Nearly all are whole: where one is not is found out only then.
  if (isWhole(document)) return undefined;
  return { path: pathToBroken(document) ?? [], message: 'expected whole Unicode characters' };
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
