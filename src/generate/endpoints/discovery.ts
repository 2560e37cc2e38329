/** How Envoy discovers a cluster's endpoints. Clusters and endpoints must be consistent. */
import type { ModelSettings, Service } from '../../model/index.ts';
import type { EffectivePolicy } from '../common/index.ts';
import type { View } from '../views.ts';

/**
 * `eds`: sent by meshd. `dns`: resolved by Envoy. `dynamic`: the name that a client requests, resolved by Envoy.
 * `original`: the connection's original destination. `none`: it has no endpoints.
 */
export type Discovery = 'eds' | 'dns' | 'dynamic' | 'original' | 'none';

export function discoveryOf(
  service: Service,
  policy: EffectivePolicy,
  settings: ModelSettings,
  view: Pick<View, 'part'>,
): Discovery {
  // Clients of gateways could choose the addresses to which gateways connect; routes cannot name a wildcard either.
  if (service.resolution === 'dynamic') return view.part === 'outbound' ? 'dynamic' : 'none';
  const passthrough = service.resolution === 'passthrough' || policy.loadBalancer?.simple === 'PASSTHROUGH';
  // The original destination of a gateway's connections is the gateway itself; gRPC applications have none.
  if (view.part === 'gateway' || view.part === 'grpc-client') return service.resolution === 'dns' ? 'dns' : 'eds';
  if (service.headless && service.resolution === 'passthrough' && settings.edsForHeadless) return 'eds';
  return passthrough ? 'original' : service.resolution === 'dns' ? 'dns' : 'eds';
}
