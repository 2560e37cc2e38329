/** How a cluster's endpoints become known to Envoy. Clusters and endpoints must agree on it. */
import type { ModelSettings, Service } from '../../model/types.ts';
import type { EffectivePolicy } from '../common/index.ts';
import type { View } from '../types.ts';

/** `eds` sent by us, `dns` resolved by Envoy, `original` wherever the connection was going. */
export type Discovery = 'eds' | 'dns' | 'original';

export function discoveryOf(
  service: Service,
  policy: EffectivePolicy,
  settings: ModelSettings,
  view: Pick<View, 'part'>,
): Discovery {
  const passthrough = service.resolution === 'passthrough' || policy.loadBalancer?.simple === 'PASSTHROUGH';
  // A gateway's connections were going to the gateway: there is no original destination to pass on to.
  if (view.part === 'gateway') return service.resolution === 'dns' ? 'dns' : 'eds';
  if (service.headless && service.resolution === 'passthrough' && settings.edsForHeadless) return 'eds';
  return passthrough ? 'original' : service.resolution === 'dns' ? 'dns' : 'eds';
}
