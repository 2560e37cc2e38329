/** The ports of a service that no endpoint serves. */
import { type Labels, labelsMatch } from '../common/labels.ts';
import type { Endpoint, Service, ServicePort } from '../types/types.ts';

/**
 * The number of ports without endpoints, each of which is a cluster; UDP ports have no clusters. For nearly all
 * services, only a few endpoints are read, because the first ones serve all ports.
 *
 * @param labels of the subset
 */
export function emptyPorts(
  { ports }: Pick<Service, 'ports'>,
  endpoints: readonly Endpoint[],
  labels: Labels = {},
): readonly ServicePort[] {
  const missing = new Map(ports.filter(({ protocol }) => protocol !== 'UDP').map((port) => [port.name, port]));
  for (const endpoint of endpoints) {
    if (missing.size === 0) break;
    if (labelsMatch(labels, endpoint.labels)) missing.delete(endpoint.servicePort);
  }
  return [...missing.values()];
}
