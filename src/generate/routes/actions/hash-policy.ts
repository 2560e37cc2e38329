/** The request attributes of consistent hashing: defined by the destination rule, configured on the route. */
import type { ConsistentHash, Destination } from '../../../resources/index.ts';
import { toDuration } from '../../common/index.ts';
import type { RouteContext } from '../context.ts';
import { destinationPort } from '../destination.ts';
import type { HashPolicy } from '../messages.ts';

/** Hash policies for the destinations of a route, one for each rule. */
export function hashPolicies(destinations: readonly Destination[], context: RouteContext): HashPolicy[] {
  const rules = new Set<ConsistentHash>();
  for (const destination of destinations) {
    const port = destinationPort(destination, context);
    const rule = context.lookups.consistentHash(destination.host, destination.subset ?? '', port);
    if (rule !== undefined) rules.add(rule);
  }
  return [...rules].flatMap((rule) => hashPolicy(rule) ?? []);
}

export function hashPolicy(rule: ConsistentHash): HashPolicy | undefined {
  if (rule.httpHeaderName) return { header: { headerName: rule.httpHeaderName } };
  if (rule.httpCookie?.name) {
    const { name, ttl, path, attributes } = rule.httpCookie;
    return {
      cookie: {
        name,
        // With a lifetime (even 0s), Envoy creates the cookie itself when a client has none.
        ...(ttl === undefined ? {} : { ttl: toDuration(ttl) }),
        ...(path === undefined ? {} : { path }),
        ...(attributes === undefined ? {} : { attributes }),
      },
    };
  }
  if (rule.useSourceIp === true) return { connectionProperties: { sourceIp: true } };
  if (rule.httpQueryParameterName) return { queryParameter: { name: rule.httpQueryParameterName } };
  return undefined;
}
