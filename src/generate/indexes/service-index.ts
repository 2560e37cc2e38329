/**
 * Services by port. Listeners and routes are generated port by port; without this index each port would walk all
 * services. Cached per service map (which the next scope shares when nothing changed), so that it is built once per
 * scope and change.
 */
import type { Memos } from '../../core/memo.ts';
import type { PMap } from '../../core/pmap.ts';
import type { Service, ServicePort } from '../../model/index.ts';

/** One port of one service. */
export interface ServicePortEntry {
  readonly service: Service;
  readonly port: ServicePort;
}

/**
 * By service, in the order of its ports: the same objects while the service is unchanged, so that indexes can be
 * compared by them.
 */
function entriesOf(memos: Memos, service: Service): readonly ServicePortEntry[] {
  return memos
    .weak<Service, readonly ServicePortEntry[]>('ports of services')
    .get(service, () => service.ports.flatMap((port) => (port.protocol === 'UDP' ? [] : [{ service, port }])));
}

type ByPort = ReadonlyMap<number, readonly ServicePortEntry[]>;

/**
 * Port number → service ports, in the order of host names; ports ascend. Without UDP ports, which Envoy does not get.
 */
export function servicesByPort(memos: Memos, services: PMap<Service>): ByPort {
  return memos.weak<PMap<Service>, ByPort>('services by port').get(services, () => getIndex(memos, services));
}

function getIndex(memos: Memos, services: PMap<Service>): ByPort {
  const byPort = new Map<number, ServicePortEntry[]>();
  for (const [, service] of services.sorted()) {
    for (const entry of entriesOf(memos, service)) {
      const entries = byPort.get(entry.port.port);
      if (entries === undefined) byPort.set(entry.port.port, [entry]);
      else entries.push(entry);
    }
  }
  return new Map([...byPort].sort(([a], [b]) => a - b));
}
