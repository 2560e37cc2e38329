/** Exports the metrics of the program, and traces of its pushes, to an OpenTelemetry receiver. */
import type { Registry } from 'prom-client';
import { systemClock } from '../../core/clock.ts';
import { getScope } from '../../logging/index.ts';
import { type CompletedPush, type Metrics, OtlpExporter, type OtlpOptions } from '../../observe/index.ts';

export interface TelemetryExportOptions {
  readonly options: OtlpOptions;
  readonly registry: Registry;
  readonly metrics: Metrics;
  /** Sets the gauges. */
  readonly sample: () => void;
  readonly pushes: (since: number) => readonly CompletedPush[];
}

export function startTelemetryExport({ options, registry, metrics, sample, pushes }: TelemetryExportOptions) {
  const log = getScope('default');
  const families = () => {
    sample();
    return registry.getMetricsAsJSON();
  };
  return new OtlpExporter(
    options,
    { families, pushes },
    {
      onResult: (signal, result, items) => metrics.ctl_otlp_items_total.inc({ signal, result }, items),
      onState: (signal, problem) => {
        if (problem === undefined) log.info(`the OpenTelemetry receiver takes ${signal} again`);
        else log.warn(`the OpenTelemetry receiver does not take ${signal}, retried and then dropped: ${problem}`);
      },
    },
    systemClock,
    Date.now,
  );
}
