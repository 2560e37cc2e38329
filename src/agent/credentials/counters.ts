/** Counters of outgoing requests by type. */
import type { IdentityMetric } from '../types.ts';

/** The types of requests besides those to the authority. */
export type RequestType = 'token_exchange' | 'metadata';

export interface RequestCounters {
  /** Counts one request; `retry`: it repeats a failed one. Counts a rejection as a failure. */
  count<T>(retry: boolean, request: () => Promise<T>): Promise<T>;
  metrics(): readonly IdentityMetric[];
}

/** @param now ms */
export function requestCounters(type: RequestType, now: () => number): RequestCounters {
  const counts = { num_outgoing_requests: 0, num_failed_outgoing_requests: 0, num_outgoing_retries: 0 };
  let latencyMs = 0;
  return {
    async count(retry, request) {
      const start = now();
      counts.num_outgoing_requests++;
      if (retry) counts.num_outgoing_retries++;
      try {
        return await request();
      } catch (error) {
        counts.num_failed_outgoing_requests++;
        throw error;
      } finally {
        latencyMs += Math.max(0, now() - start);
      }
    },
    metrics: () =>
      Object.entries({ ...counts, outgoing_latency: latencyMs }).map(([name, value]) => ({
        name,
        value,
        labels: { request_type: type },
      })),
  };
}
