/**
 * Endpoints of clusters that have gone while they were on their way to a proxy. An Envoy with state of the world warms
 * a cluster until a response has the endpoints that it names. Meanwhile it acknowledges no clusters, and so would never
 * be sent those without that cluster. Delta has names of resources that do not exist instead.
 */
import { encodeFields } from '../../../protobuf/wire/index.ts';
import { type EncodedResource, encodeResource } from '../../../push/index.ts';
import type { Plan } from '../plans/plan.ts';
import type { Subscription } from '../subscription.ts';

const NONE: readonly string[] = [];

/** Fields of `envoy.config.endpoint.v3.ClusterLoadAssignment`. */
const ASSIGNMENT = { clusterName: 1 };

/** The names of endpoints in the plan that do not exist and that the proxy waits for. */
export function absentEndpoints(
  { type, forced }: Pick<Subscription, 'type' | 'forced'>,
  { removed, missing = NONE }: Pick<Plan, 'removed' | 'missing'>,
): readonly string[] {
  if (type !== 'eds' || removed.length === 0) return NONE;
  if (forced.size === 0) return missing;
  const reported = new Set(missing);
  return removed.filter((name) => forced.has(name) || reported.has(name));
}

/** What is sent for such a name: what the proxy has, if it is known, else an assignment without endpoints. */
export function lastEndpoints(subscription: Pick<Subscription, 'known'>, name: string): EncodedResource {
  const known = subscription.known(name)?.resource;
  return known ?? encodeResource('eds', name, '', encodeFields([[ASSIGNMENT.clusterName, name]]), NONE);
}
