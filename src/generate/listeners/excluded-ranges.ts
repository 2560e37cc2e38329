/** Address ranges of routes that contain HTTP ports of orchestrator Services: no filter chain may match these. */
import type { ServicePortEntry } from '../indexes/index.ts';
import { ownerOfRange } from '../plans/index.ts';
import type { L4Chain } from './l4-chains.ts';

/**
 * Chains without the ranges (of routes that match destinations) that contain virtual IPs of HTTP ports.
 * @param entries the services of the listener's port
 */
export function withoutExcludedRanges(
  chains: readonly L4Chain[],
  entries: readonly ServicePortEntry[],
  port: number,
  sniff: boolean,
): { readonly free: readonly L4Chain[]; readonly conflicts: readonly string[] } {
  const conflicts: string[] = [];
  const free = chains.flatMap((chain) => {
    const ranges = chain.ranges.filter((range) => {
      const owner = ownerOfRange(range, entries, sniff);
      if (owner !== undefined)
        conflicts.push(`${chain.owner}: port ${port} of ${range} already serves HTTP of ${owner.hostname}`);
      return owner === undefined;
    });
    return ranges.length === 0 && chain.ranges.length > 0 ? [] : [{ ...chain, ranges }];
  });
  return { free, conflicts };
}
