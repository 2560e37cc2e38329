/**
 * The retry policy that most routes of a virtual host have said once, on the virtual host: it is by far the longest
 * part of a route. Envoy takes it for every route that forwards and has none of its own; one that has takes nothing of
 * it (https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto,
 * `VirtualHost.retry_policy`).
 */
import type { RetryPolicy, Route, VirtualHostMessage } from './messages.ts';

/** Says for a route that it does not retry: where nothing else is said, the policy of the virtual host would hold. */
const NO_RETRIES: RetryPolicy = {};

/**
 * The routes of a virtual host. Policies are the same when they are the same object, as the default one is, and that of
 * all matches of one route.
 */
export function withSharedRetries(routes: readonly Route[]): Pick<VirtualHostMessage, 'routes' | 'retryPolicy'> {
  const shared = routes.length < 2 ? undefined : mostUsed(routes);
  if (shared === undefined) return { routes };
  return { routes: routes.map((route) => withoutPolicy(route, shared)), retryPolicy: shared };
}

/** The policy of most routes, of those alike the first; undefined when none has two. */
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
