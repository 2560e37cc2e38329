/** Differences of two messages in their JSON form, field by field, with limits on their number and size. */
import { isObject } from '../../core/objects.ts';
import type { FieldChange } from './types.ts';

export interface FieldChanges {
  readonly fields: readonly FieldChange[];
  /** Number of further fields that differ. */
  readonly more: number;
}

/** Fields listed of one resource. */
export const MAX_FIELDS = 40;
/** Characters of a value that is shown whole. */
const MAX_VALUE = 600;
/** Fields that identify the items of a list. */
const ITEM_NAMES = ['name', 'cluster_name'] as const;

/** @param before, after what `toShownJson` returns; undefined: there is no such resource */
export function fieldChanges(before: unknown, after: unknown): FieldChanges {
  const found = new Found();
  compare('', plain(before), plain(after), found);
  return found;
}

class Found implements FieldChanges {
  readonly fields: FieldChange[] = [];
  more = 0;

  add(path: string, before: unknown, after: unknown): void {
    if (this.fields.length >= MAX_FIELDS) this.more++;
    else
      this.fields.push({
        path,
        ...(before !== undefined && { before: shown(before) }),
        ...(after !== undefined && { after: shown(after) }),
      });
  }
}

/** Lists that are generated while they are read, as arrays. */
function plain(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Symbol.iterator in value) return Array.from(value as Iterable<unknown>, plain);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]));
}

function shown(value: unknown): unknown {
  const text = JSON.stringify(value);
  return text.length <= MAX_VALUE ? value : `${text.slice(0, MAX_VALUE)}… (${text.length} characters)`;
}

function compare(path: string, before: unknown, after: unknown, found: Found): void {
  if (before === after) return;
  if (Array.isArray(before) && Array.isArray(after)) compareLists(path, before, after, found);
  else if (isObject(before) && isObject(after)) compareObjects(path, before, after, found);
  else found.add(path, before, after);
}

function compareObjects(
  path: string,
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
  found: Found,
): void {
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const step = /^[\w@]+$/.test(key) ? `${path === '' ? '' : '.'}${key}` : `[${JSON.stringify(key)}]`;
    compare(`${path}${step}`, before[key], after[key], found);
  }
}

function compareLists(path: string, before: readonly unknown[], after: readonly unknown[], found: Found): void {
  const names = [namesOf(before), namesOf(after)];
  if (names[0] !== undefined && names[1] !== undefined) compareNamed(path, names[0], names[1], found);
  else compareByPosition(path, before, after, found);
}

/** The items by name; undefined where they have no names of their own. */
function namesOf(items: readonly unknown[]): ReadonlyMap<string, unknown> | undefined {
  const named = new Map<string, unknown>();
  for (const item of items) {
    const name = isObject(item) ? ITEM_NAMES.map((field) => item[field]).find((each) => each !== undefined) : undefined;
    if (typeof name !== 'string' || named.has(name)) return undefined;
    named.set(name, item);
  }
  return named;
}

function compareNamed(
  path: string,
  before: ReadonlyMap<string, unknown>,
  after: ReadonlyMap<string, unknown>,
  found: Found,
): void {
  for (const name of new Set([...before.keys(), ...after.keys()]))
    compare(`${path}[${name}]`, before.get(name), after.get(name), found);
  const [was, is] = [before, after].map((items) =>
    [...items.keys()].filter((name) => before.has(name) && after.has(name)),
  );
  // The order counts for most lists: filters, routes, filter chains.
  if (was?.join('\n') !== is?.join('\n')) found.add(`${path} (order)`, was, is);
}

/** Items in common at both ends are skipped, so that an item that is inserted is one difference. */
function compareByPosition(path: string, before: readonly unknown[], after: readonly unknown[], found: Found): void {
  const [was, is] = [before.map((item) => JSON.stringify(item)), after.map((item) => JSON.stringify(item))];
  const shorter = Math.min(was.length, is.length);
  let first = 0;
  while (first < shorter && was[first] === is[first]) first++;
  let last = 0;
  while (last < shorter - first && was.at(-1 - last) === is.at(-1 - last)) last++;
  const [ofBefore, ofAfter] = [before.length - last - first, after.length - last - first];
  // Positions are those after the change, and for items that go those before it.
  for (let index = 0; index < Math.max(ofBefore, ofAfter); index++) {
    const at = first + index;
    compare(
      `${path}[${at}]`,
      index < ofBefore ? before[at] : undefined,
      index < ofAfter ? after[at] : undefined,
      found,
    );
  }
}
