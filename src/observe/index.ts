/** Metrics, the introspection page, profiles and build information of the programs. */

export type { Series } from './distribution.ts';
export { startIntrospection } from './introspection.ts';
export { collectProcessMetrics, createMetrics, type Metrics, recordBuild } from './metrics.ts';
export { METRICS, type MetricSpec } from './metrics-table.ts';
export { createProfiler, type Profiler } from './profiling.ts';
