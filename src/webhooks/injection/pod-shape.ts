import { isObject } from '../../core/objects.ts';

/** Reads Pods whose structure has not been validated. */

export type PodRecord = Readonly<Record<string, unknown>>;

export function recordOf(value: unknown): PodRecord {
  return isObject(value) ? value : {};
}

/** The objects of a list. */
export function recordsOf(value: unknown): readonly PodRecord[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** The values of labels or annotations by name. */
export function textsOf(value: unknown): Readonly<Record<string, string>> {
  const entries = Object.entries(recordOf(value));
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
