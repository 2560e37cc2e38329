/**
 * Moves the retry policy that most routes of a virtual host share to the virtual host, because it is by far the longest
 * part of a route. Envoy applies it to every forwarding route without a policy; a route's own policy replaces it
 * entirely (https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto,
 * `VirtualHost.retry_policy`).
 */
import type { RetryPolicy, Route, VirtualHostMessage } from '../messages.ts';

/** Explicitly disables retries for a route: otherwise the policy of the virtual host would apply. */
const NO_RETRIES: RetryPolicy = {};

/**
 * The routes of a virtual host. Policies are compared by identity: the default policy is one object, and so is the
 * policy of all matches of a route.
 */
export function withSharedRetries(routes: readonly Route[]): Pick<VirtualHostMessage, 'routes' | 'retryPolicy'> {
  const shared = routes.length < 2 ? undefined : mostUsed(routes);
  if (shared === undefined) return { routes };
  return { routes: routes.map((route) => withoutPolicy(route, shared)), retryPolicy: shared };
}

/** The most frequent policy (the first of equally frequent ones); undefined if no policy occurs twice. */
function mostUsed(routes: readonly Route[]): RetryPolicy | undefined {
  const uses = new Map<RetryPolicy, number>();
  let most: RetryPolicy | undefined;
  for (const { route } of routes) {
    const policy = route?.retryPolicy;
    if (policy !== undefined && policy !== null) uses.set(policy, (uses.get(policy) ?? 0) + 1);
  }
  for (const [policy, count] of uses) {
    if (count > 1 && count > (most === undefined ? 0 : (uses.get(most) ?? 0))) most = policy;
  }
  return most;
}

function withoutPolicy(route: Route, shared: RetryPolicy): Route {
  const { route: action } = route;
  if (action === undefined || action === null) return route;
  const { retryPolicy, ...rest } = action;
  if (retryPolicy === shared) return { ...route, route: rest };
  return retryPolicy === undefined ? { ...route, route: { ...rest, retryPolicy: NO_RETRIES } } : route;
}
