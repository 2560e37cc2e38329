/**
 * The JSON Patch (RFC 6902) between two documents. It takes time in proportion to what differs: parts that are the same
 * object in both documents are not visited. Entries of a list are recognized by their `name`, else by their content.
 * Entries that are added, removed or changed become operations of their own; a list whose entries changed their order
 * is replaced.
 */
import { isObject } from '../../core/objects.ts';
import type { JsonPatchOperation } from '../types.ts';

type Fields = Readonly<Record<string, unknown>>;

/** The operations that turn `from` into `to`, in the order in which they apply. Both are JSON documents. */
export function jsonPatch(from: unknown, to: unknown): JsonPatchOperation[] {
  const operations: JsonPatchOperation[] = [];
  compare(from, to, '', operations);
  return operations;
}

function compare(from: unknown, to: unknown, path: string, operations: JsonPatchOperation[]): void {
  if (from === to) return;
  if (Array.isArray(from) && Array.isArray(to)) compareLists(from, to, path, operations);
  else if (isObject(from) && isObject(to)) compareFields(from, to, path, operations);
  else operations.push({ op: 'replace', path, value: to });
}

function compareFields(from: Fields, to: Fields, path: string, operations: JsonPatchOperation[]): void {
  for (const name of Object.keys(from)) {
    if (to[name] === undefined || !Object.hasOwn(to, name)) operations.push({ op: 'remove', path: step(path, name) });
  }
  for (const [name, value] of Object.entries(to)) {
    // JSON has no undefined.
    if (value === undefined) continue;
    if (Object.hasOwn(from, name)) compare(from[name], value, step(path, name), operations);
    else operations.push({ op: 'add', path: step(path, name), value });
  }
}

function compareLists(
  from: readonly unknown[],
  to: readonly unknown[],
  path: string,
  operations: JsonPatchOperation[],
): void {
  const start = commonStart(from, to);
  const end = commonEnd(from, to, start);
  const before = identified(from.slice(start, from.length - end));
  const after = identified(to.slice(start, to.length - end));
  const kept = [...before.keys()].filter((key) => after.has(key));
  const inOrder = [...after.keys()].filter((key) => before.has(key)).every((key, index) => key === kept[index]);
  const removed = before.size - kept.length;
  // A list of other entries, or in another order.
  if (!inOrder || (kept.length === 0 && start + end === 0 && removed > 0 && after.size > 0)) {
    operations.push({ op: 'replace', path, value: to });
    return;
  }
  // From the end, so that the index of each entry is still that of the document before.
  for (const [index, key] of [...before.keys()].entries().toArray().reverse()) {
    if (!after.has(key)) operations.push({ op: 'remove', path: step(path, String(start + index)) });
  }
  for (const [index, [key, value]] of [...after].entries()) {
    const at = step(path, String(start + index));
    if (before.has(key)) compare(before.get(key), value, at, operations);
    else operations.push({ op: 'add', path: at, value });
  }
}

/** Number of entries at the start that are the same objects or values. */
function commonStart(from: readonly unknown[], to: readonly unknown[]): number {
  const most = Math.min(from.length, to.length);
  let count = 0;
  while (count < most && from[count] === to[count]) count++;
  return count;
}

/** The number of equal entries at the end, after the first `start` entries. */
function commonEnd(from: readonly unknown[], to: readonly unknown[], start: number): number {
  const most = Math.min(from.length, to.length) - start;
  let count = 0;
  while (count < most && from[from.length - 1 - count] === to[to.length - 1 - count]) count++;
  return count;
}

/** Entries by their identity. Equal ones are numbered. */
function identified(entries: readonly unknown[]): Map<string, unknown> {
  const found = new Map<string, unknown>();
  const counts = new Map<string, number>();
  for (const entry of entries) {
    const identity = identityOf(entry);
    const count = counts.get(identity) ?? 0;
    counts.set(identity, count + 1);
    found.set(`${count}:${identity}`, entry);
  }
  return found;
}

function identityOf(entry: unknown): string {
  if (isObject(entry) && typeof entry.name === 'string') return `name:${entry.name}`;
  return `content:${JSON.stringify(entry)}`;
}

/** RFC 6901, section 3. */
function step(path: string, name: string): string {
  return `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}
