/**
 * Metrics by Envoy's access logger for statistics. It counts a request or a connection when it ends, so there are no
 * metrics of opened connections and of gRPC messages.
 */
import { envoy } from '../../../../protobuf/index.ts';
import { STATS_ACCESS_LOG, type TypedConfig, typedConfig } from '../../extensions.ts';
import { cel, labelsOf } from './labels.ts';
import { LOGGED, type Logged } from './logged.ts';
import type { MetricsPlan } from './plan.ts';

const { Config } = envoy.extensions.access_loggers.stats.v3;
type Config = envoy.extensions.access_loggers.stats.v3.Config.Input;
type Stat = envoy.extensions.access_loggers.stats.v3.Config.Stat.Input;

/**
 * Maximum number of series of a logger (one for each filter chain); further series are not counted until unused ones
 * are evicted. A gateway to a thousand services with ten different responses each has as many.
 */
const STATS_SCOPE = {
  maxCounters: { value: 10_000 },
  maxHistograms: { value: 10_000 },
  // Where the bootstrap has `stats_eviction_interval`.
  enableEviction: true,
};
/** Of the value of a tag that a document adds: each different value is part of the name of a series. */
const MAX_TAG_BYTES = 128;

/** The loggers for requests or for connections: one, or none if all of its metrics are disabled. */
export function statsLoggers({ direction, changes }: MetricsPlan, of: Logged['of']): TypedConfig[] {
  const counters: NonNullable<Config['counters']>[number][] = [];
  const histograms: NonNullable<Config['histograms']>[number][] = [];
  const labels = labelsOf(direction, of);
  for (const [metric, measured] of LOGGED) {
    const { disabled, tags = [] } = changes[metric] ?? {};
    if (measured.of !== of || disabled === true) continue;
    const { name, value, unit } = measured;
    const stat: Stat = { name, tags: tagsOf(labels, tags) };
    if (unit !== undefined && value !== undefined) histograms.push({ stat, unit, valueFormat: value });
    else counters.push({ stat, ...(value === undefined ? { valueFixed: { value: 1 } } : { valueFormat: value }) });
  }
  if (counters.length + histograms.length === 0) return [];
  // Envoys up to 1.40 crash on shutdown with a scope that loggers share (`sharing_name`).
  return [typedConfig(STATS_ACCESS_LOG, Config, { statsScope: STATS_SCOPE, counters, histograms })];
}

function tagsOf(
  labels: Readonly<Record<string, string>>,
  changed: readonly (readonly [string, string | null])[],
): Stat['tags'] {
  const formats = new Map(Object.entries(labels));
  for (const [name, expression] of changed) {
    if (expression === null) formats.delete(name);
    else formats.set(name, cel(expression, MAX_TAG_BYTES));
  }
  return [...formats].map(([name, valueFormat]) => ({ name, valueFormat }));
}
