/** Timeouts and retries of rules. */
import type { HttpRetries, HttpRoute, HttpRouteRule } from '../../../resources/index.ts';

/** Failures without an answer, which are retried whatever codes a rule lists. */
const NO_ANSWER = ['connect-failure', 'refused-stream'];
const TIMEOUT = 504;

/** Attempts of a rule that does not say how many, as for other routes of the mesh. */
const DEFAULT_ATTEMPTS = 2;

export function toRetries({ timeouts, retry }: HttpRouteRule): Pick<HttpRoute, 'timeout' | 'retries'> {
  const { request, backendRequest = 0 } = timeouts ?? {};
  const timeout = request === undefined ? {} : { timeout: request };
  if (retry?.attempts === 0) {
    // A single attempt may take as long as the shorter of the two.
    const limits = [request ?? 0, backendRequest].filter((limit) => limit > 0);
    return { ...timeout, ...(limits.length === 0 ? {} : { timeout: Math.min(...limits) }), retries: { attempts: 0 } };
  }
  if (retry === undefined && backendRequest <= 0) return timeout;
  const perTry = backendRequest <= 0 ? {} : { perTryTimeout: backendRequest };
  return { ...timeout, retries: { attempts: retry?.attempts ?? DEFAULT_ATTEMPTS, ...toRetryPolicy(retry), ...perTry } };
}

function toRetryPolicy(retry: HttpRouteRule['retry']): HttpRetries {
  if (retry === undefined) return {};
  const { codes = [], backoff } = retry;
  // An attempt that takes too long is a stream that the proxy itself resets.
  const conditions = [...codes, ...NO_ANSWER, ...(codes.includes(TIMEOUT) ? ['reset'] : [])];
  return { retryOn: conditions.join(','), ...(backoff === undefined ? {} : { backoff }) };
}
