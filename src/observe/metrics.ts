/**
 * Prometheus instruments, created from the table of metrics. Each program and each test has its own registry; there is
 * no global one.
 */

import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { BuildInfo } from '../core/build-info.ts';
import type { ProgramName } from '../logging/index.ts';
import { Distribution } from './distribution.ts';
import { METRICS, type MetricName, type MetricSpec, type MetricType } from './metrics-table.ts';

type Labels<S extends MetricSpec> = S extends { readonly labels: readonly (infer L extends string)[] } ? L : never;

type InstrumentOf<T extends MetricType, L extends string> = T extends 'Distribution'
  ? Distribution<L>
  : T extends 'LastValue'
    ? Gauge<L>
    : Counter<L>;

/** The instrument of every metric by name: `metrics.ctl_xds.set(3)`. */
export type Metrics = {
  readonly [N in MetricName]: InstrumentOf<(typeof METRICS)[N]['type'], Labels<(typeof METRICS)[N]>>;
};

/**
 * Creates the instruments in a registry. A registry accepts each name once, so a program calls this once. The default
 * is a new registry, for tests.
 */
export function createMetrics(registry: Registry = new Registry()): Metrics {
  const entries = Object.entries(METRICS).map(([name, spec]) => [name, makeInstrument(name, spec, registry)]);
  // `Object.entries` loses which name has which type of instrument; the mapped type has it.
  return Object.fromEntries(entries) as Metrics;
}

function makeInstrument(name: string, spec: MetricSpec, registry: Registry): Counter | Gauge | Distribution {
  const common = { name, help: spec.meaning, labelNames: [...(spec.labels ?? [])], registers: [registry] };
  switch (spec.type) {
    case 'Distribution': {
      const { buckets = [], labels: labelNames = [] } = spec;
      const distribution = new Distribution({ name, help: spec.meaning, labelNames, buckets });
      distribution.register(registry);
      return distribution;
    }
    case 'LastValue':
      return new Gauge(common);
    case 'Count':
    case 'Sum': {
      const counter = new Counter(common);
      for (const labels of combinations(spec.values)) counter.inc(labels, 0);
      return counter;
    }
  }
}

/** Every combination of the values of labels; none without values. */
function combinations(values: MetricSpec['values']): Record<string, string>[] {
  if (values === undefined) return [];
  return Object.entries(values).reduce<Record<string, string>[]>(
    (found, [label, each]) => found.flatMap((labels) => each.map((value) => ({ ...labels, [label]: value }))),
    [{}],
  );
}

/** Sets `mesh_build`. Called once at start. */
export function recordBuild(metrics: Metrics, component: ProgramName, build: BuildInfo): void {
  const { version, revision, tag } = build;
  metrics.mesh_build.set({ component, version, revision, tag }, 1);
}

/** Adds prom-client's metrics of the process (CPU, memory, event loop, garbage collection) to a registry. */
export function collectProcessMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry });
}
