/** Mirroring: copies of requests are sent to another destination, and the answers dropped. */
import type { HttpRoute } from '../../../resources/index.ts';
import type { RouteContext } from '../context.ts';
import { destinationCluster } from '../destination.ts';
import type { MirrorPolicy } from '../messages.ts';
import { fractionalPercent } from './percent.ts';

/** Without a percentage everything is mirrored; with 0 nothing is. */
export function mirrorPolicies(route: HttpRoute, context: RouteContext): MirrorPolicy[] {
  const single = route.mirror === undefined ? [] : [{ destination: route.mirror, percentage: route.mirrorPercentage }];
  return [...single, ...(route.mirrors ?? [])]
    .filter(({ percentage }) => percentage === undefined || percentage.value > 0)
    .map(({ destination, percentage }) => ({
      cluster: destinationCluster(destination, context),
      ...(percentage === undefined ? {} : { runtimeFraction: { defaultValue: fractionalPercent(percentage) } }),
    }));
}
