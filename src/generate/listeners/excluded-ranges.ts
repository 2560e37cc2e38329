/** Address ranges of routes that contain connections of other Services: no filter chain may match these. */
import type { Service } from '../../model/index.ts';
import { rangeCovers } from '../common/index.ts';
import { protocolKind } from '../filters/index.ts';
import type { ServicePortEntry } from '../indexes/index.ts';
import { type OutboundListenerPlan, ownerOfRange } from '../plans/index.ts';
import type { ScopeReader } from '../reads/index.ts';
import type { L4Chain } from './l4-chains.ts';

/** How the services of a port share a listener. */
interface PortSharing {
  readonly sniff: boolean;
  /** Whether pods of headless TCP services have listeners of their own. */
  readonly podListeners: boolean;
}

/** Chains without the ranges (of routes that match destinations) that contain connections of orchestrator Services. */
export function withoutExcludedRanges(
  chains: readonly L4Chain[],
  scope: ScopeReader,
  { http, bindToPort, port, egress }: OutboundListenerPlan,
  { sniff, podListeners }: PortSharing,
): { readonly free: readonly L4Chain[]; readonly conflicts: readonly string[] } {
  const services = scope.egress[egress]?.services;
  if (bindToPort || services === undefined) return { free: chains, conflicts: [] };
  const entries = services.onPort(port);
  const headless = entries.filter(
    (entry) => entry.service.headless && (!podListeners || protocolKind(entry.port.protocol, sniff) !== 'tcp'),
  );
  const conflicts: string[] = [];
  const free = chains.flatMap((chain) => {
    const ranges = chain.ranges.filter((range) => {
      const owner =
        (http === undefined ? undefined : ownerOfRange(range, entries, sniff)) ??
        headlessOwner(range, chain.service, port, headless);
      if (owner !== undefined)
        conflicts.push(`${chain.owner}: port ${port} of ${range} is HTTP of ${owner.hostname} already`);
      return owner === undefined;
    });
    return ranges.length === 0 && chain.ranges.length > 0 ? [] : [{ ...chain, ranges }];
  });
  return { free, conflicts };
}

/**
 * The headless Service of another namespace whose pods may be in a range. The pods' addresses are not read here: the
 * model has determined which of a service's own ranges contain such pods (`excludedRanges`). Of other ranges nothing is
 * known, so they count as containing them.
 */
function headlessOwner(
  range: string,
  { namespace, addresses, excludedRanges }: Service,
  port: number,
  headless: readonly ServicePortEntry[],
): Service | undefined {
  const owner = headless.find(({ service }) => service.namespace !== namespace)?.service;
  if (owner === undefined) return undefined;
  const isExcluded = (address: string) =>
    excludedRanges?.some((excluded) => excluded.range === address && excluded.port === port) === true;
  return addresses.some((address) => rangeCovers(address, range) && !isExcluded(address)) ? undefined : owner;
}
