/**
 * Services by port. Listeners and routes are generated port by port; without this index each port would walk all services.
 * Kept per service map (which the next scope shares when nothing changed), so it is built once per scope and change.
 */
import type { PMap } from '../core/pmap.ts';
import type { Service, ServicePort } from '../model/types.ts';

/** One port of one service. */
export interface ServicePortEntry {
  readonly service: Service;
  readonly port: ServicePort;
}

const indexes = new WeakMap<PMap<Service>, ReadonlyMap<number, readonly ServicePortEntry[]>>();

/** Port number → service ports, in the order of host names; ports ascend. UDP ports are not in it: Envoy is not given them. */
export function servicesByPort(services: PMap<Service>): ReadonlyMap<number, readonly ServicePortEntry[]> {
  const known = indexes.get(services);
  if (known !== undefined) return known;
  const byPort = new Map<number, ServicePortEntry[]>();
  for (const [, service] of services.sorted()) {
    for (const port of service.ports) {
      if (port.protocol === 'UDP') continue;
      const entries = byPort.get(port.port);
      if (entries === undefined) byPort.set(port.port, [{ service, port }]);
      else entries.push({ service, port });
    }
  }
  const sorted = new Map([...byPort].sort(([a], [b]) => a - b));
  indexes.set(services, sorted);
  return sorted;
}
