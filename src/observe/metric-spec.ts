/** What the table of metrics says of each metric. */

/**
 * The types of OpenCensus, which Istio 1.7 uses: Count and Sum only grow, LastValue is the current value, Distribution
 * a histogram.
 */
export type MetricType = 'Count' | 'Sum' | 'LastValue' | 'Distribution';

export interface MetricSpec {
  readonly type: MetricType;
  readonly meaning: string;
  readonly labels?: readonly string[];
  /**
   * All values of each label, where these series start at 0: a counter of errors that begins with the first error shows
   * no increase for it.
   */
  readonly values?: Readonly<Record<string, readonly string[]>>;
  /** Upper bounds of a Distribution, in the metric's unit. */
  readonly buckets?: readonly number[];
}
