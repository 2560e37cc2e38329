/** Metrics, what happened in the last minutes, profiles and build information of the programs. */

export type { Series } from './distribution.ts';
export { collectProcessMetrics, createMetrics, type Metrics, recordBuild } from './metrics.ts';
export { METRICS, type MetricSpec } from './metrics-table.ts';
export { OtlpExporter, type OtlpOptions, otlpOptions } from './otlp/index.ts';
export { createProfiler, type Profiler } from './profiling/index.ts';
export {
  type CompletedPush,
  EventRing,
  type Levels,
  PushHistory,
  type RecentEvent,
  type RecentPush,
  type RecentSeries,
  SeriesRing,
} from './recent/index.ts';
