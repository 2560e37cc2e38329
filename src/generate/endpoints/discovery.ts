/** How Envoy learns a cluster's endpoints. Clusters and endpoints must agree on it. */
import type { ModelSettings, Service } from '../../model/index.ts';
import type { EffectivePolicy } from '../common/index.ts';
import type { View } from '../types.ts';

/** `eds`: sent by meshd. `dns`: resolved by Envoy. `original`: the connection's original destination. */
export type Discovery = 'eds' | 'dns' | 'original';

export function discoveryOf(
  service: Service,
  policy: EffectivePolicy,
  settings: ModelSettings,
  view: Pick<View, 'part'>,
): Discovery {
  const passthrough = service.resolution === 'passthrough' || policy.loadBalancer?.simple === 'PASSTHROUGH';
  // The original destination of a gateway's connections is the gateway itself; gRPC applications know of none.
  if (view.part === 'gateway' || view.part === 'grpc-client') return service.resolution === 'dns' ? 'dns' : 'eds';
  if (service.headless && service.resolution === 'passthrough' && settings.edsForHeadless) return 'eds';
  return passthrough ? 'original' : service.resolution === 'dns' ? 'dns' : 'eds';
}
