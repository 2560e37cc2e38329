/** Fixtures of the gateway tests: what a gateway's units decode to. */

import { envoy } from '../../protobuf/index.ts';
import { gatewayListeners, gatewayListenerUnits, gatewayRoutes, gatewayRouteUnits } from '../gateways/index.ts';
import { MeshReader } from '../reads/index.ts';
import type { GatewayView } from '../views.ts';
import { gatewayOf, snapshotOf, type TestWorld } from './routes.ts';

export function viewOf(changes: Partial<GatewayView> = {}): GatewayView {
  return {
    part: 'gateway',
    namespace: 'edge',
    gateways: ['edge/gw'],
    credentialed: [],
    clientCredentials: false,
    policies: { authentication: [], authorization: [] },
    portMap: {},
    families: 'ipv4',
    endpointNames: 'cluster',
    capabilities: { extensions: undefined, sds: false },
    ...changes,
  };
}

/** Everything that a gateway gets; `servers` is a shorthand for one Gateway `edge/gw`. */
export function gatewayOutput(
  { servers, ...world }: TestWorld & { readonly servers?: readonly unknown[] },
  view: GatewayView = viewOf(),
) {
  const snapshot = snapshotOf(servers === undefined ? world : { ...world, gateways: [gatewayOf({ servers })] });
  const listeners = gatewayListenerUnits(MeshReader.of(snapshot), view).map((unit) =>
    gatewayListeners(MeshReader.of(snapshot), view, unit),
  );
  const routes = gatewayRouteUnits(MeshReader.of(snapshot), view).flatMap(
    (unit) => gatewayRoutes(MeshReader.of(snapshot), view, unit).resources,
  );
  return {
    listeners: listeners
      .flatMap(({ resources }) => resources)
      .map(({ refs, bytes }) => ({ refs, listener: envoy.config.listener.v3.Listener.decode(bytes) })),
    findings: listeners.flatMap(({ findings }) => findings),
    routes: new Map(routes.map(({ name, bytes }) => [name, envoy.config.route.v3.RouteConfiguration.decode(bytes)])),
  };
}
