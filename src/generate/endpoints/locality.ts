/**
 * Localities (`region/zone/subzone`): which of them a proxy prefers, and how much of its traffic each gets. This
 * decides only priorities and weights; the endpoints stay the same.
 */
import type { LocalityLbSetting } from '../../resources/index.ts';

/** How localities are treated for one cluster, as seen by proxies of one locality. */
export interface LocalityRules {
  /** The proxy's own locality. */
  readonly from: string;
  readonly distribute: LocalityLbSetting['distribute'];
  readonly failover: LocalityLbSetting['failover'];
  /** Failover needs outlier detection: without it Envoy never learns that a locality is bad. */
  readonly failoverEnabled: boolean;
}

interface LocalityShare {
  readonly locality: string;
  readonly weight: number;
  readonly priority: number;
}

/**
 * Two more digits for the percentages of `distribute`, so that they can be divided over localities in whole numbers.
 */
const DISTRIBUTE_SCALE = 100;

/**
 * Weights and priorities of localities. `weights` is the sum of endpoint weights by locality; localities that get no
 * traffic are left out. Priorities are contiguous from 0, which Envoy requires.
 */
export function shareLocalities(
  weights: ReadonlyMap<string, number>,
  rules: LocalityRules | undefined,
): LocalityShare[] {
  const plain = [...weights].map(([locality, weight]) => ({ locality, weight, priority: 0 }));
  if (rules === undefined || rules.from === '') return plain;
  const distribution = rules.distribute?.find(({ from }) => from !== undefined && localityMatches(from, rules.from));
  // Either, not both: a rule that distributes determines all traffic.
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

function distribute(shares: readonly LocalityShare[], to: Readonly<Record<string, number>>): LocalityShare[] {
  const result: LocalityShare[] = [];
  const taken = new Set<string>();
  // More exact patterns first, so that `a/b/*` gets its share before `a/*` and `*` divide the rest.
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

function prioritise(shares: readonly LocalityShare[], rules: LocalityRules): LocalityShare[] {
  const distances = shares.map(({ locality }) => distance(rules, locality));
  const ranks = [...new Set(distances)].sort((a, b) => a - b);
  return shares.map((share, index) => ({ ...share, priority: ranks.indexOf(distances[index] ?? 0) }));
}

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
