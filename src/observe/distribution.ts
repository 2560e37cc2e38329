/**
 * The histogram of this program: counts by upper bound, as Prometheus has them. prom-client's own looks its series up
 * by the text of their labels at each value, also through a handle; an endpoint's change is several values for each of
 * a thousand proxies. Here a series is found once, and a value is two additions. Source:
 * https://prometheus.io/docs/concepts/metric_types/#histogram
 */
import type { Histogram, Registry } from 'prom-client';

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
  /** By bound: values that are at most this and above the one before; the last is of those above all bounds. */
  readonly #counts: Float64Array;
  #sum = 0;
  #count = 0;

  constructor(labels: LabelValues<string>, bounds: readonly number[]) {
    this.labels = labels;
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  /** Throws TypeError for what is no number. */
  observe(value: number): void {
    if (!Number.isFinite(value)) throw new TypeError(`${value} is no value of a distribution`);
    const bounds = this.#bounds;
    let index = 0;
    while (index < bounds.length && value > (bounds[index] ?? 0)) index++;
    this.#counts[index] = (this.#counts[index] ?? 0) + 1;
    this.#sum += value;
    this.#count++;
  }

  /** As the exposition format has it: each bound counts all that is at most that. */
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
  /** Upper bounds, rising. */
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

  /** Makes the registry show it. */
  register(registry: Registry): void {
    // Of what it shows, a registry uses nothing but the name and `get`.
    registry.registerMetric(this as unknown as Histogram);
  }

  /**
   * The series of these labels, to be kept by who has many values for it. Throws TypeError for a label that it does not
   * have.
   */
  series(labels?: LabelValues<L>): Series {
    const { labelNames, buckets } = this.#options;
    const given: LabelValues<string> = labels ?? {};
    for (const name of Object.keys(given))
      if (!labelNames.some((known) => known === name)) throw new TypeError(`${this.name} has no label ${name}`);
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

  /** What a registry asks for. */
  get(): Promise<{ name: string; help: string; type: 'histogram'; aggregator: 'sum'; values: readonly Line[] }> {
    const { name, help } = this.#options;
    const values = [...this.#series.values()].flatMap((series) => series.lines(name));
    return Promise.resolve({ name, help, type: 'histogram', aggregator: 'sum', values });
  }
}
