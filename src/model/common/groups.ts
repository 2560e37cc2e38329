/**
 * An index from a key to many members: a persistent map of sorted lists. Changes are collected and applied together, so
 * that adding thousands of members to one group copies its list once.
 */
import type { PMap } from '../../core/pmap.ts';
import { lowerBound } from './order.ts';

export type Groups = PMap<readonly string[]>;

const NONE: readonly string[] = [];
/** Up to this length, searching a list is faster than building a set. */
const FEW = 8;

export function membersOf(groups: Groups, key: string): readonly string[] {
  return groups.get(key) ?? NONE;
}

/** Number of members that begin with a prefix. */
export function countWithPrefix(members: readonly string[], prefix: string): number {
  const first = lowerBound(members.length, (index) => (members[index] ?? '') >= prefix);
  const end = lowerBound(members.length, (index) => {
    const member = members[index] ?? '';
    return member >= prefix && !member.startsWith(prefix);
  });
  return end - first;
}

/** Edits of one group, the last one first. */
interface Edit {
  readonly member: string;
  readonly present: boolean;
  readonly earlier: Edit | undefined;
}

/** Collects changes of a {@link Groups} index; `apply` returns the next index, or the same one when nothing differs. */
export class GroupEdits {
  readonly #edits = new Map<string, Edit>();

  add(key: string, member: string): void {
    this.#edits.set(key, { member, present: true, earlier: this.#edits.get(key) });
  }

  remove(key: string, member: string): void {
    this.#edits.set(key, { member, present: false, earlier: this.#edits.get(key) });
  }

  /** Moves `member` from the groups `before` to the groups `after`. */
  move(member: string, before: readonly string[], after: readonly string[]): void {
    // Most members have few groups; a document can have thousands.
    const kept = after.length > FEW ? new Set(after) : undefined;
    for (const key of before) if (!(kept?.has(key) ?? after.includes(key))) this.remove(key, member);
    for (const key of after) this.add(key, member);
  }

  apply(groups: Groups): Groups {
    if (this.#edits.size === 0) return groups;
    const changes: [string, readonly string[] | undefined][] = [];
    for (const [key, last] of this.#edits) {
      const before = groups.get(key);
      const after = edited(before ?? NONE, last);
      if (after !== before) changes.push([key, after.length === 0 ? undefined : after]);
    }
    return groups.with(changes);
  }
}

/** The last edit of a member takes effect. */
function edited(members: readonly string[], last: Edit): readonly string[] {
  if (last.earlier === undefined) return editedOnce(members, last);
  const set = new Set(members);
  const decided = new Set<string>();
  let changed = false;
  for (let edit: Edit | undefined = last; edit !== undefined; edit = edit.earlier) {
    const { member, present } = edit;
    if (decided.has(member)) continue;
    decided.add(member);
    if (set.has(member) === present) continue;
    changed = true;
    if (present) set.add(member);
    else set.delete(member);
  }
  // The default order is that of `compareText`, and several times as fast.
  return changed ? [...set].sort() : members;
}

function editedOnce(members: readonly string[], { member, present }: Edit): readonly string[] {
  const place = lowerBound(members.length, (index) => (members[index] ?? '') >= member);
  if ((members[place] === member) === present) return members;
  return present ? members.toSpliced(place, 0, member) : members.toSpliced(place, 1);
}

export function addTo<K, V>(map: Map<K, Set<V>>, key: K, value: V): void {
  const set = map.get(key);
  if (set === undefined) map.set(key, new Set([value]));
  else set.add(value);
}
