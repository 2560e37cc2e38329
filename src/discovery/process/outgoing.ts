/** Counts the HTTP requests of this program: for key sets of token issuers and bundles of other trust domains. */
import type { Metrics } from '../../observe/index.ts';
import type { Fetch } from '../../security/index.ts';

/** The largest number of remembered URLs whose last request failed. The oldest is dropped first. */
const MAX_FAILED = 1024;

/**
 * A fetch with metrics: `num_outgoing_requests`, `num_failed_outgoing_requests` (no answer, or an error status),
 * `num_outgoing_retries` (another request to a URL that failed) and `outgoing_latency` (until the answer begins).
 * @param now monotonic milliseconds
 */
export function countedFetch(fetch: Fetch, metrics: Metrics, now: () => number): Fetch {
  const failed = new Set<string>();
  const fail = (url: string): void => {
    metrics.num_failed_outgoing_requests.inc();
    failed.add(url);
    const [oldest] = failed;
    if (oldest !== undefined && failed.size > MAX_FAILED) failed.delete(oldest);
  };
  return async (url, init) => {
    metrics.num_outgoing_requests.inc();
    if (failed.delete(url)) metrics.num_outgoing_retries.inc();
    const started = now();
    try {
      const response = await fetch(url, init);
      if (response.status >= 400) fail(url);
      return response;
    } catch (error) {
      fail(url);
      throw error;
    } finally {
      metrics.outgoing_latency.inc(Math.max(0, now() - started));
    }
  };
}
