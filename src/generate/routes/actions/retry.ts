/** Retries of a route. */
import { envoy, packAny } from '../../../protobuf/index.ts';
import type { HttpRetries } from '../../../resources/index.ts';
import { toDuration } from '../../common/index.ts';
import { PREVIOUS_HOSTS, PREVIOUS_PRIORITIES } from '../../filters/index.ts';
import type { RouteFeatures } from '../context.ts';
import type { RetryPolicy } from '../messages.ts';

const DEFAULT_ATTEMPTS = 2;
/**
 * Failures that are safe to retry for any request: it did not reach the application, or the application reported itself
 * unavailable.
 */
const DEFAULT_RETRY_ON = 'connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes';
const DEFAULT_STATUS_CODES = [503];
const BY_STATUS = 'retriable-status-codes';
/** How many times to repeat host selection when it picks a host that was already tried. */
const HOST_SELECTION_ATTEMPTS = 5;

const { PreviousHostsPredicate } = envoy.extensions.retry.host.previous_hosts.v3;
const { PreviousPrioritiesConfig } = envoy.extensions.retry.priority.previous_priorities.v3;

/** The retry policy as written, or the default one; undefined if `attempts: 0` disables retries. */
export function retryPolicy(retries: HttpRetries | undefined, features: RouteFeatures): RetryPolicy | undefined {
  if (retries === undefined) return features.previousHosts ? DEFAULT_RETRIES : DEFAULT_RETRIES_ANYWHERE;
  return toRetryPolicy(retries, features.previousHosts, features.previousPriorities);
}

function toRetryPolicy(
  retries: HttpRetries,
  previousHosts: boolean,
  previousPriorities: boolean,
): RetryPolicy | undefined {
  const attempts = retries.attempts ?? DEFAULT_ATTEMPTS;
  if (attempts <= 0) return undefined;
  const { perTryTimeout, backoff } = retries;
  return {
    ...retryConditions(retries.retryOn),
    numRetries: { value: attempts },
    ...(previousHosts && retries.retryIgnorePreviousHosts !== false ? otherHosts() : {}),
    ...(previousPriorities && retries.retryRemoteLocalities === true ? otherLocalities() : {}),
    ...(perTryTimeout === undefined ? {} : { perTryTimeout: toDuration(perTryTimeout) }),
    ...(backoff === undefined || backoff <= 0 ? {} : { retryBackOff: { baseInterval: toDuration(backoff) } }),
  };
}

/** `5xx,429`: condition names go to `retry_on`, numbers to the retried status codes. */
function retryConditions(retryOn: string | undefined): Pick<RetryPolicy, 'retryOn' | 'retriableStatusCodes'> {
  const words = (retryOn ?? '')
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');
  if (words.length === 0) return { retryOn: DEFAULT_RETRY_ON, retriableStatusCodes: DEFAULT_STATUS_CODES };
  const codes = words.filter((word) => /^[1-5]\d\d$/.test(word)).map(Number);
  const names = words.filter((word) => !/^\d+$/.test(word));
  if (codes.length > 0 && !names.includes(BY_STATUS)) names.push(BY_STATUS);
  return { retryOn: names.join(','), ...(codes.length > 0 ? { retriableStatusCodes: codes } : {}) };
}

function otherHosts(): RetryPolicy {
  return {
    retryHostPredicate: [{ name: PREVIOUS_HOSTS, typedConfig: packAny(PreviousHostsPredicate, {}) }],
    hostSelectionRetryMaxAttempts: HOST_SELECTION_ATTEMPTS,
  };
}

function otherLocalities(): RetryPolicy {
  return {
    retryPriority: {
      name: PREVIOUS_PRIORITIES,
      // Priorities are computed again after every second attempt.
      typedConfig: packAny(PreviousPrioritiesConfig, { updateFrequency: 2 }),
    },
  };
}

/** The same objects each time, so that equal policies are recognized by identity. */
const DEFAULT_RETRIES = toRetryPolicy({}, true, false);
const DEFAULT_RETRIES_ANYWHERE = toRetryPolicy({}, false, false);
