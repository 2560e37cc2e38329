/**
 * Makes filter chains of several services at one address disjoint: Envoy rejects a listener if two of its chains have
 * the same match. The first chain keeps the match; later chains keep the rest of their matches.
 */
import { cidrRange } from '../common/index.ts';
import type { FilterChain } from '../filters/index.ts';
import type { L4Chain } from './l4-chains.ts';

export interface MergedChains {
  readonly chains: readonly FilterChain[];
  /** One line for each chain that lost a match to an earlier one. */
  readonly conflicts: readonly string[];
  /** Whether a chain matches everything that no other chain matches. */
  readonly takesAll: boolean;
  readonly matchesServerNames: boolean;
}

/** Represents "any" among ranges and names; no range or name is empty. */
const ANY = '';

export function mergeChains(chains: readonly L4Chain[]): MergedChains {
  const owners = new Map<string, string>();
  const merged: FilterChain[] = [];
  const conflicts: string[] = [];
  let matchesServerNames = false;
  for (const { ranges, serverNames, filters, owner } of chains) {
    const lost = new Set<string>();
    const free = new Map<string, { ranges: string[]; names: string[] }>();
    for (const range of canonicalRanges(ranges)) {
      const names = freeNames(range, serverNames, owner, owners, lost);
      if (names.length === 0) continue;
      // Ranges with the same remaining names stay together in one chain.
      const key = names.join(' ');
      const group = free.get(key) ?? { ranges: [], names };
      group.ranges.push(range);
      free.set(key, group);
    }
    for (const { ranges: remaining, names } of free.values()) {
      merged.push({ ...toChainMatch(remaining, names), filters });
      matchesServerNames ||= !names.includes(ANY);
    }
    for (const other of lost) conflicts.push(`${owner}: connections that match it already belong to ${other}`);
  }
  return { chains: merged, conflicts, takesAll: owners.has(matchKey(ANY, ANY)), matchesServerNames };
}

/** The names of `serverNames` that no earlier chain has for this range. */
function freeNames(
  range: string,
  serverNames: readonly string[],
  owner: string,
  owners: Map<string, string>,
  lost: Set<string>,
): string[] {
  const free: string[] = [];
  for (const name of new Set(serverNames.length === 0 ? [ANY] : serverNames)) {
    const key = matchKey(range, name);
    const other = owners.get(key);
    if (other === undefined) {
      owners.set(key, owner);
      free.push(name);
    } else if (other !== owner) {
      lost.add(other);
    }
  }
  return free;
}

function matchKey(range: string, name: string): string {
  return `${range} ${name}`;
}

/** Ranges in canonical form; unreadable ones are dropped, because validation has refused them. */
function canonicalRanges(ranges: readonly string[]): ReadonlySet<string> {
  if (ranges.length === 0) return new Set([ANY]);
  return new Set(
    ranges.flatMap((text) => {
      const range = cidrRange(text);
      return range === undefined ? [] : `${range.addressPrefix}/${range.prefixLen?.value}`;
    }),
  );
}

function toChainMatch(ranges: readonly string[], names: readonly string[]): Pick<FilterChain, 'filterChainMatch'> {
  const prefixRanges = ranges.flatMap((range) => (range === ANY ? [] : (cidrRange(range) ?? [])));
  const serverNames = names.filter((name) => name !== ANY);
  if (prefixRanges.length === 0 && serverNames.length === 0) return {};
  return {
    filterChainMatch: {
      ...(prefixRanges.length > 0 && { prefixRanges }),
      ...(serverNames.length > 0 && { serverNames }),
    },
  };
}
