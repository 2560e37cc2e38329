/**
 * Observing: logs, metrics, introspection and profiles of both programs. Importing it loads
 * prom-client and node:http; code that must start fast (the command line, worker threads) imports `logging.ts`,
 * `log-spec.ts`, `scopes.ts` and `build-info.ts`, which load next to nothing, directly.
 */

export { type BuildInfo, buildInfo } from './build-info.ts';
export type { Series } from './distribution.ts';
export { type IntrospectionOptions, type IntrospectionServer, startIntrospection } from './introspection.ts';
export { type LimitedLog, limitLog } from './log-limit.ts';
export type { RotateOptions } from './log-rotate.ts';
export {
  closeLogging,
  configureLogging,
  getScope,
  type Logger,
  type LoggingOptions,
  scopeSettings,
  setLevel,
} from './logging.ts';
export { collectProcessMetrics, createMetrics, type Metrics, recordBuild } from './metrics.ts';
export { METRICS, type MetricName, type PushStage } from './metrics-table.ts';
export { createProfiler, type Profiler } from './profiling.ts';
export type { LogLevel, ProgramName, ScopeName } from './scopes.ts';
