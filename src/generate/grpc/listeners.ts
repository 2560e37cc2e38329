/**
 * Listeners of gRPC clients: for each port of a service an API listener, which names the route configuration and the
 * filters of requests.
 * Source: https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md
 */
import type { Service } from '../../model/index.ts';
import { encode, envoy, packAny } from '../../protobuf/index.ts';
import { adsConfigSource, InputCache, scopeOfView } from '../common/index.ts';
import { FAULT_FILTER, ROUTER_FILTER, typedConfig } from '../filters/index.ts';
import { isStream, type MeshReader } from '../reads/index.ts';
import type { GeneratedResource, Unit, UnitOutput } from '../types.ts';
import type { GrpcClientView } from '../views.ts';
import { clientListenerName, clientNames, clientRoutesName } from './names.ts';

const { Listener } = envoy.config.listener.v3;
const { HttpConnectionManager } = envoy.extensions.filters.network.http_connection_manager.v3;
const { HTTPFault } = envoy.extensions.filters.http.fault.v3;
const { Router } = envoy.extensions.filters.http.router.v3;

const NOTHING: UnitOutput = { resources: [], findings: [] };

/** Filters of requests: routes may inject faults. */
const CLIENT_FILTERS = [typedConfig(FAULT_FILTER, HTTPFault, {}), typedConfig(ROUTER_FILTER, Router, {})];

interface ListenerInputs {
  readonly service: Service;
  readonly initialFetchTimeoutMs: number;
  /** Joined by spaces. */
  readonly names: string;
}

const listeners = new InputCache<ListenerInputs, UnitOutput>('listeners of gRPC clients', clientListenersOf);

/** Units of all types of the clients' part: hosts. */
export function clientUnits(snapshot: MeshReader, view: GrpcClientView): readonly Unit[] {
  return scopeOfView(snapshot, view)?.services.hosts() ?? [];
}

export function clientListeners(snapshot: MeshReader, view: GrpcClientView, host: Unit): UnitOutput {
  const service = scopeOfView(snapshot, view)?.services.get(host);
  if (service === undefined) return NOTHING;
  const { initialFetchTimeoutMs } = snapshot.settings;
  const names = clientNames(host, view).join(' ');
  return listeners.get(snapshot.memos, service, { service, initialFetchTimeoutMs, names });
}

function clientListenersOf({ service, initialFetchTimeoutMs, names }: ListenerInputs): UnitOutput {
  const resources: GeneratedResource[] = [];
  for (const port of new Set(service.ports.filter(isStream).map((each) => each.port))) {
    const manager = {
      rds: {
        configSource: adsConfigSource(initialFetchTimeoutMs),
        routeConfigName: clientRoutesName(service.hostname, port),
      },
      httpFilters: CLIENT_FILTERS,
    };
    const apiListener = { apiListener: packAny(HttpConnectionManager, manager) };
    for (const name of names.split(' ').map((host) => clientListenerName(host, port)))
      resources.push({ name, bytes: encode(Listener, { name, apiListener }), refs: [] });
  }
  return { resources, findings: [] };
}
