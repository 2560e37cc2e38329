/**
 * The public services with a port. Listeners that import everything at the port share one map of them: what is derived
 * from it is computed once for all of their scopes.
 */
import type { Memos } from '../../core/memo.ts';
import type { PMap } from '../../core/pmap.ts';
import type { Service } from '../types/types.ts';

type Services = PMap<Service>;

/** Ports whose maps are kept for the same services. The oldest is dropped first. */
const MAX_PORTS = 64;

/** @param port 0: any */
export function hasPort({ ports }: Service, port: number): boolean {
  return port === 0 || ports.some((each) => each.port === port);
}

function keptFor(memos: Memos, services: Services): Map<number, Services> {
  return memos.weak<Services, Map<number, Services>>('public services at ports').get(services, () => new Map());
}

function keep(kept: Map<number, Services>, port: number, services: Services): Services {
  kept.set(port, services);
  const [oldest] = kept.keys();
  if (oldest !== undefined && kept.size > MAX_PORTS) kept.delete(oldest);
  return services;
}

/**
 * Those of the public services that have a port.
 * @param port 0: any
 */
export function publicServicesAt(memos: Memos, services: Services, port: number): Services {
  if (port === 0) return services;
  const kept = keptFor(memos, services);
  return (
    kept.get(port) ??
    keep(
      kept,
      port,
      services.filtered((service) => hasPort(service, port)),
    )
  );
}

/**
 * The same after a change.
 * @param before the public services before it
 * @param hosts all hosts of which the public service has changed, and maybe others
 */
export function changedServicesAt(
  memos: Memos,
  { before, after, hosts }: { readonly before: Services; readonly after: Services; readonly hosts: Iterable<string> },
  port: number,
): Services {
  if (port === 0 || before === after) return publicServicesAt(memos, after, port);
  const kept = keptFor(memos, after);
  const known = kept.get(port);
  if (known !== undefined) return known;
  const atPort = (host: string): Service | undefined => {
    const service = after.get(host);
    return service !== undefined && hasPort(service, port) ? service : undefined;
  };
  const next = publicServicesAt(memos, before, port).with(Array.from(hosts, (host) => [host, atPort(host)] as const));
  return keep(kept, port, next);
}
