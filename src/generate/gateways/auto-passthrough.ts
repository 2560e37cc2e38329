/**
 * TLS that a gateway passes through without a route, as gateways between networks do (AUTO_PASSTHROUGH): a sidecar of
 * another network names the cluster with the TLS server name `outbound_.<port>_.<subset>_.<host>`, and the gateway has
 * a cluster of that name. It only accepts names of services that are visible to the gateway and match its servers'
 * hosts, and only mutual TLS of the mesh: otherwise anyone who reaches the port could choose any cluster, and bypass
 * the services' own rules with the gateway's identity (CVE-2021-31921).
 */

import { MESH_TLS, meshServerName } from '../common/index.ts';
import { counting, destinationTraits, type FilterChain, tcpProxy, telemetryOf } from '../filters/index.ts';
import { covers, type ListenerPlan } from '../listener-plans/index.ts';
import { guardedConnections } from '../policies/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { GatewayView } from '../views.ts';

/** Maximum length of a client's server name in Envoy. */
const MAX_SERVER_NAME = 255;

interface PassingChain {
  readonly name: string;
  /** The label of its server. */
  readonly label: string;
  readonly chain: FilterChain;
}

/** One chain for each name, so that adding or removing a service does not affect connections to others. */
export function passingChains(snapshot: MeshReader, view: GatewayView, plan: ListenerPlan): readonly PassingChain[] {
  const servers = plan.servers.filter(({ kind }) => kind === 'auto-passthrough');
  if (servers.length === 0) return [];
  const scope = snapshot.gatewayScope(view.namespace, view.ruleLabels);
  const guarded = guardedConnections(snapshot, view);
  const chains: PassingChain[] = [];
  for (const [host, service] of scope.services.all()) {
    const server = servers.find((candidate) => covers(candidate, service));
    if (server === undefined) continue;
    const subsets = new Set(['', ...(scope.rules.of(host)?.subsets ?? []).map(({ name }) => name)]);
    for (const { port, protocol } of service.ports) {
      if (protocol === 'UDP') continue;
      for (const subset of subsets) {
        const name = meshServerName(port, subset, host);
        if (name.length > MAX_SERVER_NAME) continue;
        const { hashSourceIp } = destinationTraits(scope, host, subset, port, {
          at: undefined,
          sds: view.capabilities.sds,
        });
        const clusters = [{ cluster: name, weight: 1 }];
        const telemetry = telemetryOf(snapshot, view);
        const filters = [...counting(telemetry), tcpProxy(telemetry, { statPrefix: name, clusters, hashSourceIp })];
        const filterChainMatch = { serverNames: [name], applicationProtocols: [...MESH_TLS] };
        chains.push({ name, label: server.label, chain: { filterChainMatch, filters: guarded(filters) } });
      }
    }
  }
  return chains;
}
