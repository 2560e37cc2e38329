/**
 * Listeners of gRPC servers: for each port at which services of the workload are served. Connections are either mutual
 * TLS or plain text, because gRPC cannot distinguish them; the policies of the workload decide about requests.
 * Source: https://github.com/grpc/proposal/blob/master/A36-xds-for-servers.md
 */
import { modeOfPort } from '../../model/index.ts';
import { encode, envoy, packAny } from '../../protobuf/index.ts';
import { addressOf, scopeOfView } from '../common/index.ts';
import { HTTP_CONNECTION_MANAGER, ROUTER_FILTER, typedConfig } from '../filters/index.ts';
import { type GrpcServerPolicies, grpcServerPolicies } from '../policies/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { GenerationFinding, Unit, UnitOutput } from '../types.ts';
import type { GrpcServerView } from '../views.ts';
import { serverListenerNames } from './names.ts';
import { serverTls } from './tls.ts';

const { Listener } = envoy.config.listener.v3;
const { HttpConnectionManager } = envoy.extensions.filters.network.http_connection_manager.v3;
const { Router } = envoy.extensions.filters.http.router.v3;

type FilterChain = envoy.config.listener.v3.FilterChain.Input;

/** Every request is for the server itself. */
const ROUTES = {
  name: 'inbound',
  virtualHosts: [{ name: 'inbound', domains: ['*'], routes: [{ match: { prefix: '/' }, nonForwardingAction: {} }] }],
};

export function serverUnits(snapshot: MeshReader, view: GrpcServerView): readonly Unit[] {
  if (scopeOfView(snapshot, view) === undefined) return [];
  return [...new Set(view.ports.map(({ targetPort }) => String(targetPort)))];
}

export function serverListeners(snapshot: MeshReader, view: GrpcServerView, unit: Unit): UnitOutput {
  if (!serverUnits(snapshot, view).includes(unit)) return { resources: [], findings: [] };
  const port = Number(unit);
  const mutual = isMutual(view, port);
  const policies = grpcServerPolicies(snapshot, view, mutual);
  const filterChains = [filterChain(policies, mutual)];
  const resources = serverListenerNames(port).map(({ name, address }) => ({
    name,
    bytes: encode(Listener, { name, address: addressOf(address, port), filterChains }),
    refs: [],
  }));
  const findings = policies.problems.map((message): GenerationFinding => {
    return { metric: 'ctl_policy_problems', type: 'lds', unit, message };
  });
  return { resources, findings };
}

/**
 * Permissive servers accept plain text, unless clients in the mesh are configured to send mutual TLS to them, which
 * would fail.
 */
function isMutual({ peerAuthentication, tlsReady }: GrpcServerView, port: number): boolean {
  switch (modeOfPort(peerAuthentication, port)) {
    case 'STRICT':
      return true;
    case 'PERMISSIVE':
      return tlsReady;
    case 'DISABLE':
      return false;
  }
}

function filterChain({ filters }: GrpcServerPolicies, mutual: boolean): FilterChain {
  const manager = { routeConfig: ROUTES, httpFilters: [...filters, typedConfig(ROUTER_FILTER, Router, {})] };
  return {
    name: mutual ? 'mutual-tls' : 'plain-text',
    filters: [{ name: HTTP_CONNECTION_MANAGER, typedConfig: packAny(HttpConnectionManager, manager) }],
    ...(mutual && { transportSocket: serverTls() }),
  };
}
