/** Which failures eject an endpoint from load balancing, and for how long. */
import type { envoy } from '../../protobuf/index.ts';
import type { OutlierDetection } from '../../resources/index.ts';
import { toDuration } from '../common/index.ts';

type Message = envoy.config.cluster.v3.OutlierDetection.Input;

/**
 * Envoy's defaults, equal in all its versions:
 * https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/outlier_detection.proto
 */
const DEFAULT_INTERVAL_MS = 10_000;
const DEFAULT_EJECTION_MS = 30_000;
const DEFAULT_ERRORS = 5;

/** Enforced (percent) if the count is above 0, disabled if it is 0. */
function enforce(count: number): { value: number } {
  return { value: count > 0 ? 100 : 0 };
}

export function outlierDetection(settings: OutlierDetection): Message {
  const { interval, baseEjectionTime, maxEjectionPercent } = settings;
  return {
    // Destination rules have no statistical ejection.
    enforcingSuccessRate: { value: 0 },
    // The behavior of Envoy before it had this field: otherwise, with the default of 10 %, no endpoint of a service
    // with fewer than ten endpoints is ever ejected.
    alwaysEjectOneHost: { value: true },
    ...countedErrors(settings),
    ...(isOwn(interval, DEFAULT_INTERVAL_MS) && { interval: toDuration(interval) }),
    ...(isOwn(baseEjectionTime, DEFAULT_EJECTION_MS) && { baseEjectionTime: toDuration(baseEjectionTime) }),
    ...(maxEjectionPercent !== undefined &&
      maxEjectionPercent > 0 && { maxEjectionPercent: { value: Math.min(100, maxEjectionPercent) } }),
    ...localOriginErrors(settings),
  };
}

function countedErrors(settings: OutlierDetection): Message {
  const { consecutiveErrors, consecutive5xxErrors, consecutiveGatewayErrors } = settings;
  // The deprecated field only counts gateway errors, unlike the newer one.
  if (consecutiveErrors !== undefined && consecutiveErrors > 0 && consecutiveGatewayErrors === undefined) {
    return {
      ...gatewayFailures(consecutiveErrors),
      enforcingConsecutiveGatewayFailure: { value: 100 },
      ...(consecutive5xxErrors === undefined
        ? { enforcingConsecutive_5xx: { value: 0 } }
        : count5xx(consecutive5xxErrors)),
    };
  }
  return {
    ...(consecutive5xxErrors !== undefined && count5xx(consecutive5xxErrors)),
    ...(consecutiveGatewayErrors !== undefined && {
      ...gatewayFailures(consecutiveGatewayErrors),
      enforcingConsecutiveGatewayFailure: enforce(consecutiveGatewayErrors),
    }),
  };
}

/** Whether a value is set (0 is not) and differs from Envoy's default. */
function isOwn(value: number | undefined, byItself: number): value is number {
  return value !== undefined && value > 0 && value !== byItself;
}

function gatewayFailures(count: number): Message {
  return isOwn(count, DEFAULT_ERRORS) ? { consecutiveGatewayFailure: { value: count } } : {};
}

function count5xx(count: number): Message {
  return {
    ...(isOwn(count, DEFAULT_ERRORS) && { consecutive_5xx: { value: count } }),
    enforcingConsecutive_5xx: enforce(count),
  };
}

function localOriginErrors({
  splitExternalLocalOriginErrors,
  consecutiveLocalOriginFailures,
}: OutlierDetection): Message {
  if (splitExternalLocalOriginErrors !== true) return {};
  const count = consecutiveLocalOriginFailures;
  return {
    splitExternalLocalOriginErrors: true,
    enforcingLocalOriginSuccessRate: { value: 0 },
    ...(count !== undefined && {
      ...(isOwn(count, DEFAULT_ERRORS) && { consecutiveLocalOriginFailure: { value: count } }),
      enforcingConsecutiveLocalOriginFailure: enforce(count),
    }),
  };
}
