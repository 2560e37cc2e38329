/** The results of benches: rows of one table with the same columns, and further tables for everything else. */
import type { Size } from './options.ts';
import type { RoundsTally } from './rounds.ts';

export interface Quantiles {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

export interface Row {
  readonly bench: string;
  readonly what: string;
  readonly size: Size;
  /**
   * Milliseconds from the change to its bytes at each proxy, of all proxies and rounds together: one bad round shows in
   * it.
   */
  readonly latency?: Quantiles;
  /** Each quantile is the median over the rounds of that quantile: one bad round of three does not change it. */
  readonly medianRound?: Quantiles;
  /** The number of rounds, and how disturbed they were. */
  readonly rounds?: RoundsTally;
  /** First to last proxy of a round, ms, median of the rounds. */
  readonly spreadMs?: number;
  /** CPU seconds per round: the server's, and the simulated proxies'. */
  readonly serverCpu?: number;
  readonly clientCpu?: number;
  /** Per round, all proxies together. */
  readonly bytes?: number;
  readonly messages?: number;
  readonly resources?: number;
  readonly rssMiB?: number;
  readonly peakMiB?: number;
  /** The longest `/ready`, ms. */
  readonly readyMs?: number;
  readonly note?: string;
}

export interface Table {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly (string | number | undefined)[])[];
}

export interface Outcome {
  readonly rows: readonly Row[];
  readonly tables?: readonly Table[];
  /** Messages about parts that failed. The rows are those of the others. */
  readonly failures?: readonly string[];
}

/**
 * For an even number of values the mean of the two in the middle: of two rounds neither the good nor the bad one.
 */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const [low, high] = [Math.floor((sorted.length - 1) / 2), Math.floor(sorted.length / 2)];
  return ((sorted[low] ?? Number.NaN) + (sorted[high] ?? Number.NaN)) / 2;
}

/** Nearest rank of sorted values. */
export function quantile(sorted: readonly number[], q: number): number {
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(q * sorted.length) - 1))] ?? Number.NaN;
}

export function quantiles(values: readonly number[]): Quantiles {
  const sorted = [...values].sort((a, b) => a - b);
  const [p50, p90, p99, max] = [0.5, 0.9, 0.99, 1].map((q) => quantile(sorted, q));
  return { p50: p50 ?? Number.NaN, p90: p90 ?? Number.NaN, p99: p99 ?? Number.NaN, max: max ?? Number.NaN };
}

/** Both summaries of the latencies; `rounds` has those of each round. Nothing when there are none. */
export function latencyOf(rounds: readonly (readonly number[])[]): Pick<Row, 'latency' | 'medianRound'> {
  const all = rounds.flat();
  if (all.length === 0) return {};
  const each = rounds.map(quantiles);
  const middle = (pick: (round: Quantiles) => number): number => median(each.map(pick));
  return {
    latency: quantiles(all),
    medianRound: {
      p50: middle(({ p50 }) => p50),
      p90: middle(({ p90 }) => p90),
      p99: middle(({ p99 }) => p99),
      max: middle(({ max }) => max),
    },
  };
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
