/** Routes of connections keep off address ranges in which orchestrator Services have HTTP. */
import type { Scope } from '../../model/types.ts';
import { servicesByPort } from '../indexes/index.ts';
import { holderOfRange, type OutboundListenerPlan } from '../plans/index.ts';
import type { L4Chain } from './l4-chains.ts';

/** Chains without the ranges, of routes that match destinations, in which orchestrator Services have their HTTP. */
export function withoutHeldRanges(
  chains: readonly L4Chain[],
  scope: Scope,
  { http, bindToPort, port, egress }: OutboundListenerPlan,
  sniff: boolean,
): { readonly kept: readonly L4Chain[]; readonly conflicts: readonly string[] } {
  const services = scope.egress[egress]?.services;
  if (http === undefined || bindToPort || services === undefined) return { kept: chains, conflicts: [] };
  const entries = servicesByPort(services).get(port) ?? [];
  const conflicts: string[] = [];
  const kept = chains.flatMap((chain) => {
    const ranges = chain.ranges.filter((range) => {
      const holder = holderOfRange(range, entries, sniff);
      if (holder !== undefined)
        conflicts.push(`${chain.owner}: port ${port} of ${range} is HTTP of ${holder.hostname} already`);
      return holder === undefined;
    });
    return ranges.length === 0 && chain.ranges.length > 0 ? [] : [{ ...chain, ranges }];
  });
  return { kept, conflicts };
}
