/**
 * Route configurations of gRPC clients: one for each port of a service, with one virtual host for any authority,
 * because each is only used for one target. Source:
 * https://github.com/grpc/proposal/blob/master/A28-xds-traffic-splitting-and-routing.md
 */
import type { Service } from '../../model/index.ts';
import { encode, envoy } from '../../protobuf/index.ts';
import { scopeOfView } from '../common/index.ts';
import { isStream, type MeshReader, type ScopeReader } from '../reads/index.ts';
import {
  defaultRoute,
  hasRoutes,
  MESH_GATEWAY,
  type Route,
  type RouteContext,
  scopeLookups,
  virtualServiceRoutes,
} from '../routes/index.ts';
import type { Unit, UnitOutput } from '../types.ts';
import type { GrpcClientView } from '../views.ts';
import { clientRoutesName } from './names.ts';
import { grpcRoutes } from './route-messages.ts';

const { RouteConfiguration } = envoy.config.route.v3;

/** gRPC supports fault injection, but not the other features of Envoy. */
const FEATURES = { cors: false, fault: true, previousHosts: false, previousPriorities: false, traced: false };

const ANYTHING = { services: [true] } as const;

export function clientRoutes(snapshot: MeshReader, view: GrpcClientView, host: Unit): UnitOutput {
  const scope = scopeOfView(snapshot, view);
  const service = scope?.services.get(host);
  if (scope === undefined || service === undefined) return { resources: [], findings: [] };
  const ports = new Set(service.ports.filter(isStream).map(({ port }) => port));
  const resources = [...ports].map((port) => {
    const context: RouteContext = {
      memos: snapshot.memos,
      gateway: MESH_GATEWAY,
      port,
      defaultTimeoutMs: snapshot.settings.defaultRequestTimeoutMs,
      features: FEATURES,
      lookups: scopeLookups(scope, { namespace: view.namespace, labels: view.sourceLabels }),
    };
    const name = clientRoutesName(host, port);
    const routes = routesOf(scope, service, context).flatMap((route) => grpcRoutes(route, name));
    const virtualHosts = [{ name: `${host}:${port}`, domains: ['*'], routes }];
    return { name, bytes: encode(RouteConfiguration, { name, virtualHosts }), refs: [] };
  });
  return { resources, findings: [] };
}

/** The routes of the first virtual service that has any for the port, else the default route. */
function routesOf({ egress }: ScopeReader, { hostname }: Service, context: RouteContext): readonly Route[] {
  const { port } = context;
  const listener = egress.find(
    (each) => (each.port === undefined || each.port.number === port) && each.services.get(hostname) !== undefined,
  );
  for (const [virtualService] of listener?.virtualServices.for(hostname).at(port, () => ANYTHING) ?? [])
    if (hasRoutes(virtualService, context)) return virtualServiceRoutes(virtualService, context);
  return [defaultRoute(hostname, port, context)];
}
