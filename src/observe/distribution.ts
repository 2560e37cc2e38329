/**
 * Prometheus histograms: counts by upper bound (https://prometheus.io/docs/concepts/metric_types/#histogram). The
 * histogram of prom-client looks up a series by the text of its labels for each value, and one change of an endpoint
 * observes several values for each of a thousand proxies. Here the caller keeps the series, and a value costs two
 * additions.
 */

import type { Histogram, Registry } from 'prom-client';
import { InternalError } from '../core/errors.ts';

export type LabelValues<L extends string> = Readonly<Partial<Record<L, string>>>;

/** A line of the exposition format. */
interface Line {
  readonly metricName: string;
  readonly labels: Readonly<Record<string, string | number | undefined>>;
  readonly value: number;
}

/** The values of one combination of labels. */
export class Series {
  readonly labels: LabelValues<string>;
  readonly #bounds: readonly number[];
  /**
   * Values by bound: at most this bound and above the one before. The last count is that of values above all bounds.
   */
  readonly #counts: Float64Array;
  #sum = 0;
  #count = 0;

  constructor(labels: LabelValues<string>, bounds: readonly number[]) {
    this.labels = labels;
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  /** Throws TypeError for a value that is not a finite number. */
  observe(value: number): void {
    if (!Number.isFinite(value)) throw new InternalError(`${value} is not a finite number`);
    const bounds = this.#bounds;
    let index = 0;
    while (index < bounds.length && value > (bounds[index] ?? 0)) index++;
    this.#counts[index] = (this.#counts[index] ?? 0) + 1;
    this.#sum += value;
    this.#count++;
  }

  /** The lines of the exposition format, in which each bound counts all values up to it. */
  lines(name: string): Line[] {
    const { labels } = this;
    const bucket = (le: number | string, value: number): Line => ({
      metricName: `${name}_bucket`,
      labels: { le, ...labels },
      value,
    });
    let below = 0;
    const buckets = this.#bounds.map((le, index) => {
      below += this.#counts[index] ?? 0;
      return bucket(le, below);
    });
    const sum = { metricName: `${name}_sum`, labels, value: this.#sum };
    const count = { metricName: `${name}_count`, labels, value: this.#count };
    return [...buckets, bucket('+Inf', this.#count), sum, count];
  }
}

export interface DistributionOptions<L extends string> {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly L[];
  /** Upper bounds in ascending order. */
  readonly buckets: readonly number[];
}

export class Distribution<L extends string = string> {
  readonly name: string;
  readonly #options: DistributionOptions<L>;
  readonly #series = new Map<string, Series>();

  constructor(options: DistributionOptions<L>) {
    this.name = options.name;
    this.#options = options;
    if (options.labelNames.length === 0) this.series();
  }

  /** Adds the distribution to a registry. */
  register(registry: Registry): void {
    // A registry uses only `name` and `get` of a metric.
    registry.registerMetric(this as unknown as Histogram);
  }

  /**
   * The series of these labels. A caller with many values keeps it. Throws TypeError for an unknown label.
   */
  series(labels?: LabelValues<L>): Series {
    const { labelNames, buckets } = this.#options;
    const given: LabelValues<string> = labels ?? {};
    for (const name of Object.keys(given))
      if (!labelNames.some((known) => known === name)) throw new InternalError(`${this.name} has no label ${name}`);
    const key = JSON.stringify(labelNames.map((name) => given[name]));
    let series = this.#series.get(key);
    if (series === undefined) {
      series = new Series(given, buckets);
      this.#series.set(key, series);
    }
    return series;
  }

  observe(value: number, labels?: LabelValues<L>): void {
    this.series(labels).observe(value);
  }

  /** Called by the registry. */
  get(): Promise<{ name: string; help: string; type: 'histogram'; aggregator: 'sum'; values: readonly Line[] }> {
    const { name, help } = this.#options;
    const values = [...this.#series.values()].flatMap((series) => series.lines(name));
    return Promise.resolve({ name, help, type: 'histogram', aggregator: 'sum', values });
  }
}
