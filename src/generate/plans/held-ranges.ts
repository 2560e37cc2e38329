/** Address ranges in which orchestrator Services have HTTP: no filter chain of another service may take connections there. */
import type { Scope, Service } from '../../model/types.ts';
import { rangeHolds } from '../common/cidr.ts';
import { protocolKind } from '../filters/protocol-kind.ts';
import { type ServicePortEntry, servicesByPort } from '../indexes/service-index.ts';
import type { OutboundListenerPlan } from './port-plan.ts';

/**
 * The orchestrator Service of the port that has an address in a range and is HTTP at the listener that all services share. Envoy
 * looks at a connection's destination before its bytes, so that a filter chain for the range would take that Service's connections.
 */
export function holderOfRange(
  range: string,
  entries: readonly ServicePortEntry[],
  sniff: boolean,
): Service | undefined {
  const holder = entries.find(
    ({ service, port }) =>
      service.registry === 'Orchestrator' &&
      protocolKind(port.protocol, sniff) === 'http' &&
      service.addresses.some((address) => rangeHolds(range, address)),
  );
  return holder?.service;
}

/** What of a filter chain is read here. */
interface RangedChain {
  readonly ranges: readonly string[];
  /** Whom it is for, for messages. */
  readonly owner: string;
}

/** Chains without the ranges, of routes that match destinations, in which orchestrator Services have their HTTP. */
export function withoutHeldRanges<Chain extends RangedChain>(
  chains: readonly Chain[],
  scope: Scope,
  { http, bindToPort, port, egress }: OutboundListenerPlan,
  sniff: boolean,
): { readonly kept: readonly Chain[]; readonly conflicts: readonly string[] } {
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
