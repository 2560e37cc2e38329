/** Starts the handler that a document describes. */
import type { FairLimiter } from '../../core/fairness/fair-limiter.ts';
import type { Handler } from '../types.ts';
import { openDenier } from './denier.ts';
import { openListChecker } from './list-checker.ts';
import { openMemoryQuota } from './memory-quota.ts';
import { type MetricPage, openPrometheus } from './prometheus.ts';
import { openRedisQuota } from './redis-quota.ts';
import { openRemote } from './remote.ts';
import { openStdio } from './stdio.ts';
import type { AdapterHost, RunningHandler } from './types.ts';

export interface OpenOptions {
  readonly host: AdapterHost;
  /** Of all Prometheus handlers. */
  readonly page: MetricPage;
  /** Memory of the counters of all quotas, by namespace. */
  readonly counters: FairLimiter;
  /** Memory of results of adapters outside, by namespace of the proxies that they are about. */
  readonly results: FairLimiter;
  readonly configNamespace: string;
}

/** Throws CtlError when the parameters are not usable. */
export function openHandler(handler: Handler, options: OpenOptions): RunningHandler {
  const { host, page, configNamespace, counters } = options;
  switch (handler.adapter) {
    case 'denier':
      return openDenier(handler.params);
    case 'listchecker':
      return openListChecker(handler.id, handler.params, host);
    case 'memquota':
      return openMemoryQuota(handler.params, host, (bytes) => counters.enter(handler.namespace, bytes));
    case 'redisquota':
      return openRedisQuota(handler.id, handler.params, host);
    case 'stdio':
      return openStdio(handler.id, handler.params, host);
    case 'prometheus':
      return openPrometheus(handler, handler.params, { host, page, configNamespace });
    case 'remote':
      return openRemote(handler, host, options);
  }
}
