/** Short names for the Envoy messages of routes. */
import type { envoy } from '../../protobuf/index.ts';

export type Route = envoy.config.route.v3.Route.Input;
export type RouteMatch = envoy.config.route.v3.RouteMatch.Input;
export type RouteAction = envoy.config.route.v3.RouteAction.Input;
export type ClusterWeight = envoy.config.route.v3.WeightedCluster.ClusterWeight.Input;
export type HashPolicy = envoy.config.route.v3.RouteAction.HashPolicy.Input;
export type MirrorPolicy = envoy.config.route.v3.RouteAction.RequestMirrorPolicy.Input;
export type HeaderMatcher = envoy.config.route.v3.HeaderMatcher.Input;
export type QueryParameterMatcher = envoy.config.route.v3.QueryParameterMatcher.Input;
export type RetryPolicy = envoy.config.route.v3.RetryPolicy.Input;
export type RedirectAction = envoy.config.route.v3.RedirectAction.Input;
export type DirectResponseAction = envoy.config.route.v3.DirectResponseAction.Input;
export type VirtualHostMessage = envoy.config.route.v3.VirtualHost.Input;
export type HeaderValueOption = envoy.config.core.v3.HeaderValueOption.Input;
export type StringMatcher = envoy.type.matcher.v3.StringMatcher.Input;
export type FractionalPercent = envoy.type.v3.FractionalPercent.Input;
