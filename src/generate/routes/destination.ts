/** The cluster of a virtual service's destination. */
import type { Destination, RouteDestination } from '../../resources/index.ts';
import { clusterName } from '../common/index.ts';
import type { RouteContext } from './context.ts';

/** The port of a destination: as written, else the service's only port, else the port that the client used. */
export function destinationPort(
  destination: Destination,
  { port, lookups }: Pick<RouteContext, 'port' | 'lookups'>,
): number {
  return destination.port?.number ?? lookups.onlyPort(destination.host) ?? port;
}

/**
 * The cluster's name; also for an unknown destination: Envoy returns HTTP 503 there, which distinguishes a typing error
 * from a missing route.
 */
export function destinationCluster(destination: Destination, context: Pick<RouteContext, 'port' | 'lookups'>): string {
  return clusterName('outbound', destinationPort(destination, context), destination.subset ?? '', destination.host);
}

/** Name of the cluster of destinations that do not exist. No cluster has it. */
const NO_CLUSTER = 'unusable||';

/** The cluster of a destination with a weight. */
export function weightedCluster(
  { destination, unusable }: Pick<RouteDestination, 'destination' | 'unusable'>,
  context: Pick<RouteContext, 'port' | 'lookups'>,
): string {
  return unusable === true ? NO_CLUSTER : destinationCluster(destination, context);
}
