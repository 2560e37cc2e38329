/** Which services a gateway passes mutual TLS on to by its server name (AUTO_PASSTHROUGH): listeners, clusters and endpoints agree on it. */
import { hostMatches, isWildcardHost } from '../../model/hosts.ts';
import type { MeshSnapshot, Service } from '../../model/types.ts';
import type { GatewayView, View } from '../types.ts';
import { gatewayPlan } from './gateway-plan.ts';
import type { ServerPlan } from './gateway-servers.ts';

/** Whether a view's proxies pass connections to a service on. */
export function isPassedOn(snapshot: MeshSnapshot, view: View, service: Service): boolean {
  if (view.part !== 'gateway') return false;
  const { passing } = gatewayPlan(snapshot, view);
  return passing.some((server) => covers(server, service));
}

/** The ports of a view at which connections are passed on: their listeners hold the names of services. */
export function passingPorts(snapshot: MeshSnapshot, view: GatewayView): ReadonlySet<number> {
  return new Set(gatewayPlan(snapshot, view).passing.map(({ port }) => port));
}

/** Whether a server that passes connections on does so for a service. */
export function covers({ hosts }: ServerPlan, { hostname, namespace }: Service): boolean {
  if (isWildcardHost(hostname)) return false;
  return hosts.some(
    (entry) => (entry.namespace === undefined || entry.namespace === namespace) && hostMatches(entry.host, hostname),
  );
}
