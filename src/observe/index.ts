/** Metrics, the introspection page, profiles and build information of the programs. */

export type { Series } from './distribution.ts';
export { type IntrospectionOptions, type IntrospectionServer, startIntrospection } from './introspection.ts';
export { collectProcessMetrics, createMetrics, type Metrics, recordBuild } from './metrics.ts';
export { METRICS, type MetricName, type MetricSpec, type PushStage } from './metrics-table.ts';
export { createProfiler, type Profiler } from './profiling.ts';
