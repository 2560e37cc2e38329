/**
 * The features of the Gateway API that are supported, by their names in `GatewayClass.status.supportedFeatures`
 * (sigs.k8s.io/gateway-api, pkg/features). Every one of them has been shown by the conformance tests or by a test here.
 */
export const SUPPORTED_FEATURES: readonly string[] = [
  'Gateway',
  'HTTPRoute',
  'HTTPRouteDestinationPortMatching',
  'HTTPRouteMethodMatching',
  'HTTPRouteQueryParamMatching',
  'ReferenceGrant',
];
