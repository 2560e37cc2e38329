/** The operation that spans of a route's requests are named after, in the form of Istio's: `host:port/path`. */
import { parseClusterName } from '../common/index.ts';
import type { RouteContext } from './context.ts';
import type { Route } from './messages.ts';

/**
 * The route with its operation name, if requests may have spans. @param owner the virtual service's name, for routes
 * without a single cluster
 */
export function traced(route: Route, owner: string, { features, port }: RouteContext): Route {
  if (!features.traced) return route;
  const to = parseClusterName(route.route?.cluster ?? '');
  const target = to === undefined ? `${owner}:${port}` : `${to.host}:${to.port}`;
  return { ...route, decorator: { operation: `${target}${pathOf(route)}` } };
}

function pathOf({ match }: Route): string {
  const { prefix, path, safeRegex, pathSeparatedPrefix } = match ?? {};
  if (path) return path;
  if (safeRegex?.regex) return safeRegex.regex;
  return `${pathSeparatedPrefix ?? prefix ?? '/'}*`;
}
