/** Export of metrics and of traces of pushes by OpenTelemetry, over HTTP. */
export { OtlpExporter, type OtlpHooks, type OtlpSource, type Signal } from './exporter.ts';
export type { Family } from './json.ts';
export { type OtlpOptions, otlpOptions } from './options.ts';
