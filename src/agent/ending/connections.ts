/** Counts the connections of a proxy that is draining. */

/** Names of gauges: Envoy's documentation, "Listener" statistics. They include the gauges of the worker threads. */
const GAUGE = /^listener\.(.+)\.downstream_cx_active: (\d+)$/;
const OF_A_THREAD = /\.(?:worker_\d+|main_thread)$/;

export const CONNECTIONS_SUFFIX = '.downstream_cx_active';
const FILTER = `^listener\\..*\\${CONNECTIONS_SUFFIX}$`;
export const CONNECTIONS_STATS = `/stats?usedonly&filter=${encodeURIComponent(FILTER)}`;

/**
 * The number of connections in the response to `CONNECTIONS_STATS`: those of callers and of the application, but not
 * those to the proxy's admin interface and metrics.
 */
export function connectionsIn(stats: string, prometheusPort: number): number {
  const own = new RegExp(`^admin$|[_.]${prometheusPort}$`);
  let sum = 0;
  for (const line of stats.split('\n')) {
    const [, listener = '', count = ''] = GAUGE.exec(line) ?? [];
    if (count !== '' && !OF_A_THREAD.test(listener) && !own.test(listener)) sum += Number(count);
  }
  return sum;
}
