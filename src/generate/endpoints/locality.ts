/**
 * Localities (`region/zone/subzone`): decides which of them a proxy prefers, and the share of traffic of each. This
 * only affects priorities and weights, not the set of endpoints.
 */
import type { LocalityLbSetting } from '../../resources/index.ts';
import type { PriorityLabel } from './failover-priority.ts';

/** The rules about localities for one cluster and the proxies of one locality. */
export interface LocalityRules {
  /** The proxy's own locality. */
  readonly from: string;
  readonly distribute: LocalityLbSetting['distribute'];
  readonly failover: LocalityLbSetting['failover'];
  /** Failover needs outlier detection: without it, Envoy does not detect that a locality is unhealthy. */
  readonly failoverEnabled: boolean;
  /** Labels that take precedence over the locality, which then only counts with `failover`. */
  readonly priorities?: readonly PriorityLabel[];
  /** Labels of `failoverPriority` that do not count, because endpoints have too many values of them. */
  readonly ignored?: readonly string[];
}

/** Endpoints of a locality that have the same rank by their labels. */
export interface LocalityGroup {
  readonly locality: string;
  /** 0 without such labels. */
  readonly rank: number;
  /** The sum of the endpoints' weights. */
  readonly weight: number;
}

export type LocalityShare<Group extends LocalityGroup> = Group & { readonly priority: number };

/**
 * Two more digits for the percentages of `distribute`, so that they can be divided over localities in whole numbers.
 */
const DISTRIBUTE_SCALE = 100;

/**
 * Weights and priorities of localities. Those that get no traffic are left out. Priorities are contiguous from 0, which
 * Envoy requires.
 */
export function shareLocalities<Group extends LocalityGroup>(
  groups: readonly Group[],
  rules: LocalityRules | undefined,
): LocalityShare<Group>[] {
  const plain = groups.map((group) => ({ ...group, priority: 0 }));
  if (rules?.priorities !== undefined) return prioritise(plain, rules);
  if (rules === undefined || rules.from === '') return plain;
  const distribution = rules.distribute?.find(({ from }) => from !== undefined && localityMatches(from, rules.from));
  // A rule that distributes traffic determines all of it, without failover.
  if (rules.distribute !== undefined && rules.distribute.length > 0) {
    return distribution?.to === undefined ? plain : distribute(plain, distribution.to);
  }
  return rules.failoverEnabled ? prioritise(plain, rules) : plain;
}

/** `region/zone/*` and `*` match any suffix; a shorter pattern matches every locality inside it. */
export function localityMatches(pattern: string, locality: string): boolean {
  const parts = locality.split('/');
  return pattern.split('/').every((part, index) => part === '*' || part === '' || part === (parts[index] ?? ''));
}

function distribute<Group extends LocalityGroup>(
  shares: readonly LocalityShare<Group>[],
  to: Readonly<Record<string, number>>,
): LocalityShare<Group>[] {
  const result: LocalityShare<Group>[] = [];
  const taken = new Set<string>();
  // More specific patterns first, so that `a/b/*` gets its share before `a/*` and `*` divide the rest.
  const patterns = Object.entries(to).sort(([a], [b]) => exactness(b) - exactness(a) || (a < b ? -1 : a > b ? 1 : 0));
  for (const [pattern, percentage] of patterns) {
    const matched = shares.filter(({ locality }) => !taken.has(locality) && localityMatches(pattern, locality));
    const total = matched.reduce((sum, { weight }) => sum + weight, 0);
    for (const share of matched) {
      taken.add(share.locality);
      if (percentage === 0) continue;
      const weight = Math.max(1, Math.round((percentage * DISTRIBUTE_SCALE * share.weight) / total));
      result.push({ ...share, weight });
    }
  }
  return result;
}

function exactness(pattern: string): number {
  return pattern.split('/').filter((part) => part !== '*' && part !== '').length;
}

function prioritise<Group extends LocalityGroup>(
  shares: readonly LocalityShare<Group>[],
  rules: LocalityRules,
): LocalityShare<Group>[] {
  const near = rules.priorities === undefined || (rules.failover?.length ?? 0) > 0;
  const distances = shares.map(({ locality, rank }) => rank * DISTANCES + (near ? distance(rules, locality) : 0));
  const ranks = [...new Set(distances)].sort((a, b) => a - b);
  return shares.map((share, index) => ({ ...share, priority: ranks.indexOf(distances[index] ?? 0) }));
}

/** Number of results of {@link distance}. */
const DISTANCES = 5;

/** 0 same subzone, 1 same zone, 2 same region, 3 the failover region of the proxy's region, 4 elsewhere. */
function distance(rules: LocalityRules, locality: string): number {
  const [region = '', zone = '', subzone = ''] = rules.from.split('/');
  const [otherRegion = '', otherZone = '', otherSubzone = ''] = locality.split('/');
  if (region === otherRegion) {
    if (zone !== otherZone) return 2;
    return subzone === otherSubzone ? 0 : 1;
  }
  return rules.failover?.find(({ from }) => from === region)?.to === otherRegion ? 3 : 4;
}
