/** Types shared by the modules of policies. */
import type { envoy } from '../../protobuf/index.ts';
import type { GatewayView, InboundView } from '../views.ts';

/** A part that policies protect: a workload, or the services behind a gateway. */
export type GuardedView = InboundView | GatewayView;

/**
 * The issuer of client certificates: `mesh` certificates prove an identity; `foreign` ones are issued by another
 * authority and prove none, whatever names they have.
 */
export type Certificates = 'mesh' | 'foreign';

export type HttpFilter = envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter.Input;
export type NetworkFilter = envoy.config.listener.v3.Filter.Input;
export type ManagerFields =
  Partial<envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.Input>;
