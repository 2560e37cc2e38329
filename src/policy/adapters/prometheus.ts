/** prometheus: counts metrics of instances, which a scrape reads at the path of the policy component. */
import { CtlError } from '../../core/errors.ts';
import type { Handler, PrometheusMetric, PrometheusParams } from '../types.ts';
import { type AdapterHost, type Built, type RunningHandler, textOf } from './types.ts';

/**
 * Samples of one metric, and samples and bytes of the page of all handlers. Labels have values that callers choose, and
 * each new combination is kept in memory and in each scrape: what would need more is not counted, and logged.
 */
const MAX_SAMPLES = 2_000;
const MAX_PAGE: Cost = { samples: 50_000, bytes: 32 * 1024 * 1024 };
const MAX_LABEL_CHARACTERS = 256;
/** Of a description, which is on the page once. */
const MAX_HELP_CHARACTERS = 1_000;
/** Bytes of a sample besides its name and labels: its value, its bound, and the suffix of its name. */
const SAMPLE_BYTES = 80;

/** What time series need on the page: a distribution has a sample for each bucket, and three more. */
interface Cost {
  readonly samples: number;
  readonly bytes: number;
}

interface SeriesValue {
  /** Names and values, as the page has them. */
  readonly labels: string;
  readonly cost: Cost;
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
  readonly #used = new Map<string, Cost>();
  #all: Cost = { samples: 0, bytes: 0 };

  /** Metrics of a handler; those of the former handler of this name continue until it is closed. */
  add(id: string, metrics: HandlerMetrics): void {
    this.#handlers.set(id, metrics);
  }

  remove(id: string, metrics: HandlerMetrics): void {
    if (this.#handlers.get(id) === metrics) this.#handlers.delete(id);
  }

  /** Whether a namespace may have one more time series: it gets at most half of what others leave. */
  take(namespace: string, { samples, bytes }: Cost): boolean {
    const own = this.#used.get(namespace) ?? { samples: 0, bytes: 0 };
    if (own.samples + samples > MAX_PAGE.samples - this.#all.samples) return false;
    if (own.bytes + bytes > MAX_PAGE.bytes - this.#all.bytes) return false;
    this.#change(namespace, samples, bytes);
    return true;
  }

  release(namespace: string, { samples, bytes }: Cost): void {
    this.#change(namespace, -samples, -bytes);
  }

  #change(namespace: string, samples: number, bytes: number): void {
    const own = this.#used.get(namespace) ?? { samples: 0, bytes: 0 };
    const now: Cost = { samples: own.samples + samples, bytes: own.bytes + bytes };
    if (now.samples === 0) this.#used.delete(namespace);
    else this.#used.set(namespace, now);
    this.#all = { samples: this.#all.samples + samples, bytes: this.#all.bytes + bytes };
  }

  /**
   * The page as Prometheus reads it. Several handlers may have a metric of one name: the label `policy_handler` tells
   * them apart, and those that differ in kind from the first are left out. Handlers of the root namespace come first.
   */
  text(): string {
    const families = new Map<string, { readonly kind: string; readonly lines: string[] }>();
    const ordered = [...this.#handlers].sort(
      ([a, { isRoot: one }], [b, { isRoot: other }]) => Number(other) - Number(one) || (a < b ? -1 : 1),
    );
    for (const [, { metrics }] of ordered) {
      for (const { spec, series } of metrics.values()) {
        if (series.size === 0) continue;
        const kind = { COUNTER: 'counter', GAUGE: 'gauge', DISTRIBUTION: 'histogram' }[spec.kind];
        const family = families.get(spec.name) ?? { kind, lines: beginOf(spec, kind) };
        families.set(spec.name, family);
        if (family.kind !== kind) continue;
        for (const each of series.values()) for (const line of linesOf(spec, each)) family.lines.push(line);
      }
    }
    return [...families.values()].map(({ lines }) => `${lines.join('\n')}\n`).join('');
  }
}

function beginOf({ name, description }: PrometheusMetric, kind: string): string[] {
  const help = description.slice(0, MAX_HELP_CHARACTERS).replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${kind}`];
}

interface Metric {
  readonly spec: PrometheusMetric;
  readonly series: Map<string, SeriesValue>;
}

interface HandlerMetrics {
  readonly isRoot: boolean;
  /** By instance. */
  readonly metrics: ReadonlyMap<string, Metric>;
}

/** The handler that metrics are of. */
interface Owner {
  readonly id: string;
  readonly namespace: string;
  readonly page: MetricPage;
}

export function openPrometheus(
  { id, namespace }: Pick<Handler, 'id' | 'namespace'>,
  { metrics, expiryMs, expiryCheckIntervalMs }: PrometheusParams,
  { host, page, configNamespace }: { host: AdapterHost; page: MetricPage; configNamespace: string },
): RunningHandler {
  const own: HandlerMetrics = {
    isRoot: namespace === configNamespace,
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
      for (const [key, { updated, cost }] of series) {
        if (updated >= before || !series.delete(key)) continue;
        page.release(namespace, cost);
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
        if (!count(metric, built, host.monotonic(), { id, namespace, page })) refuse(metric.spec.name);
      }
    },
    close() {
      stop?.();
      page.remove(id, own);
      for (const { series } of own.metrics.values())
        for (const { cost } of series.values()) page.release(namespace, cost);
    },
  };
}

/** False when the time series would be one too many. */
function count({ spec, series }: Metric, { value }: Built, now: number, owner: Owner): boolean {
  if (value.template !== 'metric') throw new CtlError('internal', `no metric: ${value.template}`);
  const given = spec.labelNames.map((name) => {
    const dimension = value.dimensions.get(name);
    return dimension === undefined ? '' : textOf(dimension).slice(0, MAX_LABEL_CHARACTERS);
  });
  const key = JSON.stringify(given);
  let known = series.get(key);
  if (known === undefined) {
    const labels = [['policy_handler', owner.id], ...spec.labelNames.map((name, at) => [name, given[at] ?? ''])]
      .map(([name, text = '']) => `${name}="${escaped(text)}"`)
      .join(',');
    const samples = spec.kind === 'DISTRIBUTION' ? spec.buckets.length + 3 : 1;
    const bytes = samples * (Buffer.byteLength(labels) + spec.name.length + SAMPLE_BYTES);
    const cost: Cost = { samples, bytes };
    if ((series.size + 1) * samples > MAX_SAMPLES || !owner.page.take(owner.namespace, cost)) return false;
    const buckets = Array<number>(spec.buckets.length + 1).fill(0);
    known = { labels, cost, value: 0, count: 0, buckets, updated: now };
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

function linesOf({ name, kind, buckets }: PrometheusMetric, series: SeriesValue): string[] {
  const { labels } = series;
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
