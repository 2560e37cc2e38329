/**
 * Address ranges that contain HTTP ports of Kubernetes Services, for which filter chains of other services must not
 * match.
 */
import type { Service } from '../../model/index.ts';
import { rangeHolds } from '../common/index.ts';
import { protocolKind } from '../filters/index.ts';
import type { ServicePortEntry } from '../indexes/index.ts';

/**
 * The Kubernetes Service of the port that has an address in a range and uses HTTP at the shared listener. Envoy matches
 * a connection's destination before its protocol, so a filter chain for the range would intercept that Service's
 * connections.
 */
export function ownerOfRange(range: string, entries: readonly ServicePortEntry[], sniff: boolean): Service | undefined {
  const owner = entries.find(
    ({ service, port }) =>
      service.registry === 'Orchestrator' &&
      protocolKind(port.protocol, sniff) === 'http' &&
      service.addresses.some((address) => rangeHolds(range, address)),
  );
  return owner?.service;
}
