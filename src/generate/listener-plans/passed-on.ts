/**
 * Services to which a gateway passes mutual TLS through by server name (AUTO_PASSTHROUGH): used for listeners, clusters
 * and endpoints.
 */
import { hostMatches, isWildcardHost, type Service } from '../../model/index.ts';
import { fact, type MeshReader, note, unrecorded } from '../reads/index.ts';
import type { GatewayView, View } from '../views.ts';
import { gatewayPlan } from './gateway-plan.ts';
import { gatewayKey, passesOn, type ServerPlan } from './gateway-servers.ts';

/** Whether a view's proxies pass connections through to a service. */
export function isPassedOn(snapshot: MeshReader, view: View, service: Service): boolean {
  if (view.part !== 'gateway') return false;
  return passingServers(snapshot, view).some((server) => covers(server, service));
}

/** If no Gateway passes connections through, nothing else is read. */
function passingServers(snapshot: MeshReader, view: GatewayView): readonly ServerPlan[] {
  const gateways = snapshot.resources('Gateway');
  const any = view.gateways.some((gateway) => {
    note(fact.passing(gateway));
    return unrecorded(() => passesOn(gateways.get(gatewayKey(gateway))));
  });
  return any ? gatewayPlan(snapshot, view).passing : [];
}

/** Whether a server passes connections through to a service. */
export function covers({ hosts }: ServerPlan, { hostname, namespace }: Service): boolean {
  if (isWildcardHost(hostname)) return false;
  return hosts.some(
    (entry) => (entry.namespace === undefined || entry.namespace === namespace) && hostMatches(entry.host, hostname),
  );
}
