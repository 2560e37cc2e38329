/**
 * Finds the hosts of a scope whose destination rule changed. A rule for all hosts of the mesh affects every host of
 * every scope, so scopes with the same result are compared once.
 */

import { deepEqual } from '../common/equal.ts';
import { hostMatches, isWildcardHost } from '../common/hosts.ts';
import { isPublic } from '../common/visibility.ts';
import type { RuleGroupChange, RuleTable } from '../rules/destination-rules.ts';
import type { MergedDestinationRule, Scope } from '../types/types.ts';

export type RuleComparer = (
  before: Scope,
  after: Scope,
  groups: ReadonlySet<RuleGroupChange>,
  changedHosts: ReadonlySet<string>,
) => ReadonlySet<string>;

interface Comparison {
  readonly before: Scope['services'];
  readonly after: Scope['services'];
  readonly groups: ReadonlySet<RuleGroupChange>;
  readonly changed: ReadonlySet<string>;
}

/**
 * A comparer for one change of the rules. Two scopes have the same result if they share their services, their
 * namespaces have no rules of their own, and all rules are public.
 */
export function compareRulesOf(rulesBefore: RuleTable, rulesAfter: RuleTable): RuleComparer {
  const known: Comparison[] = [];
  let open: boolean | undefined;
  return (before, after, groups, changedHosts) => {
    const { namespace } = after;
    const own = rulesBefore.has(namespace) || rulesAfter.has(namespace) || changedHosts.size > 0 || groups.size === 0;
    if (own) return changedRules(before, after, groups, changedHosts);
    open ??= allPublic(rulesBefore) && allPublic(rulesAfter);
    if (!open) return changedRules(before, after, groups, changedHosts);
    const same = known.find(
      (each) =>
        each.before === before.services &&
        each.after === after.services &&
        each.groups.size === groups.size &&
        each.groups.isSubsetOf(groups),
    );
    if (same !== undefined) return same.changed;
    const changed = changedRules(before, after, groups, changedHosts);
    known.push({ before: before.services, after: after.services, groups, changed });
    return changed;
  };
}

function allPublic(table: RuleTable): boolean {
  for (const groups of table.values()) {
    for (const { rules } of groups.values()) if (!rules.every(({ exportTo }) => isPublic(exportTo))) return false;
  }
  return true;
}

interface RuleComparison {
  readonly was: MergedDestinationRule | undefined;
  readonly is: MergedDestinationRule | undefined;
  readonly equal: boolean;
}

/** Hosts of the scope, before or after, whose merged rule differs. */
function changedRules(
  before: Scope,
  after: Scope,
  groups: ReadonlySet<RuleGroupChange>,
  changedHosts: ReadonlySet<string>,
): ReadonlySet<string> {
  const candidates = new Set(changedHosts);
  const patterns: string[] = [];
  for (const { host } of groups) {
    candidates.add(host);
    if (isWildcardHost(host)) patterns.push(host);
  }
  if (patterns.length > 0) {
    for (const host of after.services.keys()) {
      if (patterns.some((pattern) => hostMatches(pattern, host))) candidates.add(host);
    }
  }
  const changed = new Set<string>();
  // One wildcard rule applies to thousands of hosts: the next comparison is usually the same as the last.
  let last = { was: undefined, is: undefined, equal: true } as RuleComparison;
  for (const host of candidates) {
    const was = before.destinationRule(host);
    const is = after.destinationRule(host);
    if (was !== last.was || is !== last.is) last = { was, is, equal: deepEqual(was, is) };
    if (!last.equal) changed.add(host);
  }
  return changed;
}
