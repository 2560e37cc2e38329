/**
 * Services by port. Listeners and routes are generated port by port; without this index each port would walk all services.
 * Kept per service map (which the next scope shares when nothing changed), so it is built once per scope and change.
 */
import type { PMap } from '../../core/pmap.ts';
import type { Service, ServicePort } from '../../model/types.ts';

/** One port of one service. */
export interface ServicePortEntry {
  readonly service: Service;
  readonly port: ServicePort;
}

/** By service, in the order of its ports: the same objects for as long as the service stands, by which indexes are compared. */
const entriesOfServices = new WeakMap<Service, readonly ServicePortEntry[]>();

function entriesOf(service: Service): readonly ServicePortEntry[] {
  let entries = entriesOfServices.get(service);
  if (entries === undefined) {
    entries = service.ports.flatMap((port) => (port.protocol === 'UDP' ? [] : [{ service, port }]));
    entriesOfServices.set(service, entries);
  }
  return entries;
}

const indexes = new WeakMap<PMap<Service>, ReadonlyMap<number, readonly ServicePortEntry[]>>();

/** Port number → service ports, in the order of host names; ports ascend. UDP ports are not in it: Envoy is not given them. */
export function servicesByPort(services: PMap<Service>): ReadonlyMap<number, readonly ServicePortEntry[]> {
  const known = indexes.get(services);
  if (known !== undefined) return known;
  const byPort = new Map<number, ServicePortEntry[]>();
  for (const [, service] of services.sorted()) {
    for (const entry of entriesOf(service)) {
      const entries = byPort.get(entry.port.port);
      if (entries === undefined) byPort.set(entry.port.port, [entry]);
      else entries.push(entry);
    }
  }
  const sorted = new Map([...byPort].sort(([a], [b]) => a - b));
  indexes.set(services, sorted);
  return sorted;
}
