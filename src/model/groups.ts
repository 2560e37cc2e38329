/**
 * An index from one key to many: a persistent map of sorted lists. Changes are collected and applied at once, so that adding
 * thousands of members to one group copies its list once.
 */
import type { PMap } from '../core/pmap.ts';
import { compareText } from './order.ts';

export type Groups = PMap<readonly string[]>;

const NONE: readonly string[] = [];

export function membersOf(groups: Groups, key: string): readonly string[] {
  return groups.get(key) ?? NONE;
}

/** Collects changes of a {@link Groups} index; `apply` gives the next index, and the same one when nothing differs. */
export class GroupEdits {
  readonly #edits = new Map<string, Map<string, boolean>>();

  add(key: string, member: string): void {
    this.#edit(key, member, true);
  }

  remove(key: string, member: string): void {
    this.#edit(key, member, false);
  }

  /** Moves `member` from the groups `before` to the groups `after`. */
  move(member: string, before: readonly string[], after: readonly string[]): void {
    for (const key of before) this.remove(key, member);
    for (const key of after) this.add(key, member);
  }

  apply(groups: Groups): Groups {
    const changes: [string, readonly string[] | undefined][] = [];
    for (const [key, edits] of this.#edits) {
      const before = groups.get(key);
      const after = edited(before ?? NONE, edits);
      if (after !== before) changes.push([key, after.length === 0 ? undefined : after]);
    }
    return groups.with(changes);
  }

  /** The last edit of a member wins. */
  #edit(key: string, member: string, present: boolean): void {
    const edits = this.#edits.get(key);
    if (edits === undefined) this.#edits.set(key, new Map([[member, present]]));
    else edits.set(member, present);
  }
}

function edited(members: readonly string[], edits: ReadonlyMap<string, boolean>): readonly string[] {
  const set = new Set(members);
  let changed = false;
  for (const [member, present] of edits) {
    if (set.has(member) === present) continue;
    changed = true;
    if (present) set.add(member);
    else set.delete(member);
  }
  return changed ? [...set].sort(compareText) : members;
}

/** Puts a value under a key into a map of sets. */
export function addTo<K, V>(map: Map<K, Set<V>>, key: K, value: V): void {
  const set = map.get(key);
  if (set === undefined) map.set(key, new Set([value]));
  else set.add(value);
}
