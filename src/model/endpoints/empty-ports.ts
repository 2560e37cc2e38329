/** The ports of a service that no endpoint serves. */
import { type Labels, labelsMatch } from '../common/labels.ts';
import type { Endpoint, Service, ServicePort } from '../types/types.ts';

/**
 * Each is a cluster without endpoints; ports for UDP have no clusters. Reads few endpoints of nearly all services,
 * because the first ones serve all ports.
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
