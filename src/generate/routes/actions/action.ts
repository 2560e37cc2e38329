/** The forwarding action of a route: clusters, time limits, retries, rewrites. */
import { envoy } from '../../../protobuf/index.ts';
import type { HttpRewrite, HttpRoute, HttpRouteDestination } from '../../../resources/index.ts';
import { toDuration } from '../../common/index.ts';
import type { RouteContext } from '../context.ts';
import { destinationCluster, weightedCluster } from '../destination.ts';
import type { ClusterWeight, MirrorPolicy, RouteAction } from '../messages.ts';
import { hashPolicies } from './hash-policy.ts';
import { headerFields, hostOverride } from './headers.ts';
import { fractionalPercent } from './percent.ts';
import { retryPolicy } from './retry.ts';

const { INTERNAL_SERVER_ERROR } = envoy.config.route.v3.RouteAction.ClusterNotFoundResponseCode;

type Targets = readonly { readonly destination: HttpRouteDestination; readonly weight: number }[];

/** Envoy's limit for the sum of a route's weights. */
const MAX_TOTAL_WEIGHT = 0xffffffff;

/** The destinations that get traffic, with valid weights for Envoy. */
export function weighted<D extends { readonly weight?: number | undefined }>(
  destinations: readonly D[],
): readonly { readonly destination: D; readonly weight: number }[] {
  const weights = destinations.map(({ weight }) => Math.max(weight ?? 0, 0));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  // Envoy refuses a sum of 0, as in a list without any weights: they share equally.
  if (total === 0) return destinations.map((destination) => ({ destination, weight: 1 }));
  const scale = total > MAX_TOTAL_WEIGHT ? MAX_TOTAL_WEIGHT / total : 1;
  return destinations
    .map((destination, index) => ({ destination, weight: Math.floor((weights[index] ?? 0) * scale) }))
    .filter(({ weight }) => weight > 0);
}

/**
 * Time limits: `timeout` of 0 is none. The limit applies to gRPC requests too. A route without one lets gRPC clients
 * set theirs by `grpc-timeout`; a route with a limit must not have that field, because Envoy then ignores the limit
 * (https://github.com/envoyproxy/envoy/issues/15530).
 */
export function timeoutFields(milliseconds: number): Pick<RouteAction, 'timeout' | 'maxStreamDuration'> {
  const timeout = toDuration(milliseconds);
  return milliseconds > 0 ? { timeout } : { timeout, maxStreamDuration: { grpcTimeoutHeaderMax: timeout } };
}

export function forwardAction(route: HttpRoute, targets: Targets, context: RouteContext): RouteAction {
  const retries = retryPolicy(route.retries, context.features);
  const mirrors = mirrorPolicies(route, context);
  const usable = targets.filter(({ destination }) => destination.unusable !== true);
  const hashes = hashPolicies(
    usable.map(({ destination }) => destination.destination),
    context,
  );
  const host = hostOverride(route.headers) ?? onlyHostOverride(targets);
  return {
    ...clusterFields(targets, context),
    ...(usable.length < targets.length ? { clusterNotFoundResponseCode: INTERNAL_SERVER_ERROR } : {}),
    ...(host === undefined ? {} : { hostRewriteLiteral: host }),
    ...rewriteFields(route.rewrite),
    ...timeoutFields(route.timeout ?? context.defaultTimeoutMs),
    ...(retries === undefined ? {} : { retryPolicy: retries }),
    ...(mirrors.length > 0 ? { requestMirrorPolicies: mirrors } : {}),
    ...(hashes.length > 0 ? { hashPolicy: hashes } : {}),
  };
}

function onlyHostOverride(targets: Targets): string | undefined {
  const [only, ...others] = targets;
  return only === undefined || others.length > 0 ? undefined : hostOverride(only.destination.headers);
}

function clusterFields(targets: Targets, context: RouteContext): Pick<RouteAction, 'cluster' | 'weightedClusters'> {
  const [only, ...others] = targets;
  if (only !== undefined && others.length === 0) {
    return { cluster: weightedCluster(only.destination, context) };
  }
  const clusters = targets.map(({ destination, weight }): ClusterWeight => {
    const host = hostOverride(destination.headers);
    return {
      name: weightedCluster(destination, context),
      weight: { value: weight },
      ...headerFields([destination.headers]),
      ...(host === undefined ? {} : { hostRewriteLiteral: host }),
    };
  });
  return { weightedClusters: { clusters } };
}

/**
 * Mirroring: copies of requests are sent to another destination, and the responses are ignored.
 *
 * Without a percentage, all requests are mirrored; with 0, none.
 */
function mirrorPolicies(route: HttpRoute, context: RouteContext): MirrorPolicy[] {
  const single = route.mirror === undefined ? [] : [{ destination: route.mirror, percentage: route.mirrorPercentage }];
  return [...single, ...(route.mirrors ?? [])]
    .filter(({ percentage }) => percentage === undefined || percentage.value > 0)
    .map(({ destination, percentage }) => ({
      cluster: destinationCluster(destination, context),
      ...(percentage === undefined ? {} : { runtimeFraction: { defaultValue: fractionalPercent(percentage) } }),
    }));
}

/**
 * Rewrites of path and authority before a request is forwarded.
 *
 * With `uri`, Envoy replaces the matched part: the prefix of a prefix match, the whole path of an exact or regex match
 * (envoy.config.route.v3.RouteAction.prefix_rewrite).
 */
function rewriteFields(
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
