/** Counts of endpoints by locality, network or cluster, kept up to date by differences. */
import { PMap } from '../../core/pmap.ts';
import type { Endpoint } from '../types/types.ts';

/** Value (a locality, a network, a cluster) → number of a service's endpoints that have it. */
export type Counts = ReadonlyMap<string, number>;

export const NO_COUNTS: Counts = new Map();

/** The counts after a change of endpoints; the same object when no count changes. Endpoints without a value do not count. */
export function countBy(
  of: (endpoint: Endpoint) => string | undefined,
  before: Counts,
  { removed, added }: { readonly removed: Iterable<Endpoint>; readonly added: Iterable<Endpoint> },
): Counts {
  const edits = new Map<string, number>();
  const edit = (endpoint: Endpoint, by: number): void => {
    const value = of(endpoint);
    if (value !== undefined) edits.set(value, (edits.get(value) ?? 0) + by);
  };
  for (const endpoint of removed) edit(endpoint, -1);
  for (const endpoint of added) edit(endpoint, 1);
  // Nothing can have been removed from an empty map.
  if (before.size === 0 && edits.size > 0) return edits;
  const changed = [...edits].filter(([, by]) => by !== 0);
  if (changed.length === 0) return before;
  const after = new Map(before);
  for (const [value, by] of changed) {
    const number = (after.get(value) ?? 0) + by;
    if (number === 0) after.delete(value);
    else after.set(value, number);
  }
  return after;
}

/** Value → number of services that have endpoints with it, after services moved between values. */
export function nextCounts(
  counts: PMap<number>,
  moves: Iterable<{ readonly before: Counts; readonly after: Counts }>,
): PMap<number> {
  const changed = new Map<string, number>();
  const count = (value: string, by: number): void => {
    changed.set(value, (changed.get(value) ?? counts.get(value) ?? 0) + by);
  };
  for (const { before, after } of moves) {
    if (before === after) continue;
    for (const value of before.keys()) if (!after.has(value)) count(value, -1);
    for (const value of after.keys()) if (!before.has(value)) count(value, 1);
  }
  return counts.with([...changed].map(([value, number]) => [value, number === 0 ? undefined : number]));
}

/** The values that some service has. */
export interface CountedNames {
  readonly counts: PMap<number>;
  /** Sorted; the same object until they change. */
  readonly all: ReadonlySet<string>;
}

export const NO_NAMES: CountedNames = { counts: PMap.empty(), all: new Set() };

export function nextNames(
  before: CountedNames,
  moves: Iterable<{ readonly before: Counts; readonly after: Counts }>,
): CountedNames {
  const counts = nextCounts(before.counts, moves);
  if (counts === before.counts) return before;
  const same = counts.changedKeys(before.counts).every((name) => counts.has(name) === before.counts.has(name));
  return { counts, all: same ? before.all : new Set([...counts.keys()].sort()) };
}
