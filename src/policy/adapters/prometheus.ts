/** prometheus: counts metrics of instances, which a scrape reads at the path of the policy component. */
import { CtlError } from '../../core/errors.ts';
import type { PrometheusMetric, PrometheusParams } from '../types.ts';
import { type AdapterHost, type Built, type RunningHandler, textOf } from './types.ts';

/**
 * Time series of one metric, and of all handlers. Labels have values that callers choose, and each new combination is
 * kept in memory and in each scrape: what would need more is not counted, and logged.
 */
const MAX_SERIES = 2_000;
const MAX_ALL_SERIES = 50_000;
const MAX_LABEL_CHARACTERS = 256;

interface SeriesValue {
  readonly labels: readonly string[];
  value: number;
  /** Of a distribution: values by bound, then those above all bounds. */
  readonly buckets: number[];
  count: number;
  /** Monotonic ms. */
  updated: number;
}

/** The metrics of all Prometheus handlers. */
export class MetricPage {
  readonly #handlers = new Map<string, HandlerMetrics>();
  #series = 0;

  /** Metrics of a handler; those of the former handler of this name continue until it is closed. */
  add(id: string, metrics: HandlerMetrics): void {
    this.#handlers.set(id, metrics);
  }

  remove(id: string, metrics: HandlerMetrics): void {
    if (this.#handlers.get(id) === metrics) this.#handlers.delete(id);
  }

  /** Whether one more time series may be kept. */
  take(): boolean {
    if (this.#series >= MAX_ALL_SERIES) return false;
    this.#series++;
    return true;
  }

  release(series: number): void {
    this.#series -= series;
  }

  /**
   * The page as Prometheus reads it. Several handlers may have a metric of one name: the label `policy_handler` tells
   * them apart, and those that differ in kind from the first are left out.
   */
  text(): string {
    const families = new Map<string, { readonly kind: string; readonly lines: string[] }>();
    for (const [id, { metrics }] of [...this.#handlers].sort(([a], [b]) => (a < b ? -1 : 1))) {
      for (const { spec, series } of metrics.values()) {
        const kind = { COUNTER: 'counter', GAUGE: 'gauge', DISTRIBUTION: 'histogram' }[spec.kind];
        const help = spec.description.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
        const begin = [`# HELP ${spec.name} ${help}`, `# TYPE ${spec.name} ${kind}`];
        const family = families.get(spec.name) ?? { kind, lines: begin };
        families.set(spec.name, family);
        if (family.kind !== kind) continue;
        for (const each of series.values()) family.lines.push(...linesOf(id, spec, each));
      }
    }
    return [...families.values()].map(({ lines }) => `${lines.join('\n')}\n`).join('');
  }
}

interface Metric {
  readonly spec: PrometheusMetric;
  readonly series: Map<string, SeriesValue>;
}

interface HandlerMetrics {
  /** By instance. */
  readonly metrics: ReadonlyMap<string, Metric>;
}

export function openPrometheus(
  id: string,
  { metrics, expiryMs, expiryCheckIntervalMs }: PrometheusParams,
  host: AdapterHost,
  page: MetricPage,
): RunningHandler {
  const own: HandlerMetrics = {
    metrics: new Map(metrics.map((spec) => [spec.instanceName, { spec, series: new Map<string, SeriesValue>() }])),
  };
  page.add(id, own);
  let refused = 0;
  const refuse = (name: string): void => {
    refused++;
    if ((refused & (refused - 1)) === 0)
      host.log.warn(`handler ${id}: ${refused} values of metric ${name} were not counted: it has too many time series`);
  };
  const expire = (): void => {
    const before = host.monotonic() - (expiryMs ?? 0);
    for (const { series } of own.metrics.values()) {
      for (const [key, { updated }] of series) {
        if (updated >= before || !series.delete(key)) continue;
        page.release(1);
      }
    }
  };
  const stop =
    expiryMs === undefined ? undefined : host.every(Math.max(100, expiryCheckIntervalMs ?? expiryMs / 2), expire);
  return {
    daemons: stop === undefined ? 0 : 1,
    workers: 0,
    report(entries) {
      for (const built of entries) {
        const metric = own.metrics.get(built.instance.id);
        if (metric === undefined) throw new CtlError('not_found', `the handler has no metric of ${built.instance.id}`);
        if (!count(metric, built, host.monotonic(), page)) refuse(metric.spec.name);
      }
    },
    close() {
      stop?.();
      page.remove(id, own);
      for (const { series } of own.metrics.values()) page.release(series.size);
    },
  };
}

/** False when the time series would be one too many. */
function count({ spec, series }: Metric, { value }: Built, now: number, page: MetricPage): boolean {
  if (value.template !== 'metric') throw new CtlError('internal', `no metric: ${value.template}`);
  const labels = spec.labelNames.map((name) => {
    const dimension = value.dimensions.get(name);
    return dimension === undefined ? '' : textOf(dimension).slice(0, MAX_LABEL_CHARACTERS);
  });
  const key = JSON.stringify(labels);
  let known = series.get(key);
  if (known === undefined) {
    if (series.size >= MAX_SERIES || !page.take()) return false;
    known = { labels, value: 0, count: 0, buckets: Array<number>(spec.buckets.length + 1).fill(0), updated: now };
    series.set(key, known);
  }
  const amount = Number(value.value);
  known.updated = now;
  known.count++;
  known.value = spec.kind === 'GAUGE' ? amount : known.value + (spec.kind === 'COUNTER' ? Math.max(0, amount) : amount);
  const above = spec.buckets.findIndex((bound) => amount <= bound);
  const at = above < 0 ? spec.buckets.length : above;
  known.buckets[at] = (known.buckets[at] ?? 0) + 1;
  return true;
}

function linesOf(
  handler: string,
  { name, kind, labelNames, buckets }: PrometheusMetric,
  series: SeriesValue,
): string[] {
  const pairs = [
    ['policy_handler', handler] as const,
    ...labelNames.map((label, at) => [label, series.labels[at] ?? ''] as const),
  ];
  const labels = pairs.map(([label, value]) => `${label}="${escaped(value)}"`).join(',');
  if (kind !== 'DISTRIBUTION') return [`${name}{${labels}} ${series.value}`];
  let below = 0;
  const bounds = buckets.map((bound, at) => {
    below += series.buckets[at] ?? 0;
    return `${name}_bucket{${labels},le="${bound}"} ${below}`;
  });
  return [
    ...bounds,
    `${name}_bucket{${labels},le="+Inf"} ${series.count}`,
    `${name}_sum{${labels}} ${series.value}`,
    `${name}_count{${labels}} ${series.count}`,
  ];
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
