/** Limits of connections and requests, and connection settings, from a connection pool. */

import type { MergedDestinationRule } from '../../model/index.ts';
import type { envoy } from '../../protobuf/index.ts';
import type { ConnectionPool, RetryBudget, TcpKeepalive } from '../../resources/index.ts';
import { toDuration } from '../common/index.ts';

type Cluster = envoy.config.cluster.v3.Cluster.Input;

/** Unlimited by default: Envoy's own default of 1,024 is often unexpected under load. */
const UNLIMITED = 0xffffffff;

/** Limits as written; zero and less mean "no limit". */
function limit(value: number | undefined): { value: number } {
  return { value: value !== undefined && value > 0 ? value : UNLIMITED };
}

/** Envoy's defaults, which apply when a rule has an empty budget: without any field there would be no budget. */
const DEFAULT_BUDGET_PERCENT = 20;
const DEFAULT_BUDGET_CONCURRENCY = 3;

export function hasBudgetInterval(rule: MergedDestinationRule): boolean {
  return [rule, ...rule.subsets].some((each) => each.trafficPolicy?.retryBudget?.budgetInterval !== undefined);
}

/** A retry budget without the fields that the proxies' Envoy does not support. */
export function usableBudget(budget: RetryBudget | undefined, intervals: boolean): RetryBudget | undefined {
  if (intervals || budget?.budgetInterval === undefined) return budget;
  const { budgetInterval: _, ...usable } = budget;
  return usable;
}

export function circuitBreakers(
  pool: ConnectionPool | undefined,
  retryBudget?: RetryBudget,
): Pick<Cluster, 'circuitBreakers'> {
  return {
    circuitBreakers: {
      thresholds: [
        {
          maxConnections: limit(pool?.tcp?.maxConnections),
          maxPendingRequests: limit(pool?.http?.http1MaxPendingRequests),
          maxRequests: limit(pool?.http?.http2MaxRequests),
          maxRetries: limit(pool?.http?.maxRetries),
          ...(retryBudget !== undefined && { retryBudget: toRetryBudget(retryBudget) }),
        },
      ],
    },
  };
}

/** Replaces `max_retries`. */
function toRetryBudget({ percent, minRetryConcurrency, budgetInterval = 0 }: RetryBudget) {
  return {
    budgetPercent: { value: percent ?? DEFAULT_BUDGET_PERCENT },
    minRetryConcurrency: { value: minRetryConcurrency || DEFAULT_BUDGET_CONCURRENCY },
    ...(budgetInterval > 0 && { budgetInterval: toDuration(budgetInterval) }),
  };
}

/** Connect timeout (milliseconds, for pools without one) and TCP keepalive (the mesh's, for pools without one). */
export function connectionSettings(
  pool: ConnectionPool | undefined,
  meshConnectTimeoutMs: number,
  meshKeepalive: TcpKeepalive | undefined,
): Pick<Cluster, 'connectTimeout' | 'upstreamConnectionOptions'> {
  const timeout = pool?.tcp?.connectTimeout ?? 0;
  const keepalive = pool?.tcp?.tcpKeepalive ?? meshKeepalive;
  return {
    connectTimeout: toDuration(timeout > 0 ? timeout : meshConnectTimeoutMs),
    ...(keepalive !== undefined && { upstreamConnectionOptions: { tcpKeepalive: toKeepalive(keepalive) } }),
  };
}

function toKeepalive({ probes, time, interval }: TcpKeepalive): envoy.config.core.v3.TcpKeepalive.Input {
  return {
    ...(probes !== undefined && probes > 0 && { keepaliveProbes: { value: probes } }),
    ...(time !== undefined && { keepaliveTime: { value: wholeSeconds(time) } }),
    ...(interval !== undefined && { keepaliveInterval: { value: wholeSeconds(interval) } }),
  };
}

/** The kernel counts keepalive in seconds, and 0 is not allowed. */
function wholeSeconds(milliseconds: number): number {
  return Math.max(1, Math.ceil(milliseconds / 1000));
}
