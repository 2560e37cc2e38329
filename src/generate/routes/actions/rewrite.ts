/** Rewrites of path and authority before a request is forwarded. */
import type { HttpRewrite } from '../../../resources/index.ts';
import type { RouteAction } from '../messages.ts';

/**
 * With `uri`, Envoy replaces the matched part: the prefix of a prefix match, the whole path of an exact or regex match
 * (envoy.config.route.v3.RouteAction.prefix_rewrite).
 */
export function rewriteFields(
  rewrite: HttpRewrite | undefined,
): Pick<RouteAction, 'hostRewriteLiteral' | 'prefixRewrite' | 'regexRewrite'> {
  if (rewrite === undefined) return {};
  const { uri, authority, uriRegexRewrite } = rewrite;
  return {
    // One of the two: Envoy refuses a route with both.
    ...(uriRegexRewrite !== undefined
      ? { regexRewrite: { pattern: { regex: uriRegexRewrite.match }, substitution: uriRegexRewrite.rewrite } }
      : uri
        ? { prefixRewrite: uri }
        : {}),
    ...(authority ? { hostRewriteLiteral: authority } : {}),
  };
}
