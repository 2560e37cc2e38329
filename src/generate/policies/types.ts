/** What the rooms of policies have in common. */
import type { envoy } from '../../protobuf/index.ts';
import type { GatewayView, InboundView } from '../types.ts';

/** A part whose proxy guards something: a workload, or what is behind a gateway. */
export type GuardedView = InboundView | GatewayView;

export type HttpFilter = envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter.Input;
export type NetworkFilter = envoy.config.listener.v3.Filter.Input;
/** Some fields of the HTTP connection manager. */
export type ManagerFields =
  Partial<envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.Input>;
