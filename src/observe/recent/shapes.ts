/** The JSON of `/debug/pushz` and `/debug/seriesz`. Types alone: the page application imports them, too. */

/** One entry, as pages show it. Times are in ms. */
export interface RecentPush {
  readonly version: number;
  /** Unix ms of its earliest event. */
  readonly at: number;
  /** Values of the label of `ctl_push_triggers`. */
  readonly triggers: readonly string[];
  /** Some of the changed resources, and the number of all. */
  readonly resources: readonly string[];
  readonly changed: number;
  /** Proxies that have acknowledged it; those that have not yet; those that needed nothing of it, or are gone. */
  readonly acknowledged: number;
  readonly underWay: number;
  readonly without: number;
  readonly bytes: number;
  /** From the earliest event until a proxy has acknowledged it; absent before the first one has. */
  readonly p50?: number;
  readonly p99?: number;
  readonly max?: number;
  /**
   * `debounce`: from the event until the changes were quiet; `snapshot`; then, summed over views until the next change:
   * `views`, `generate` (in workers, several at once) and `intern`.
   */
  readonly stages: Readonly<Record<string, number>>;
}

/** Values by interval, the oldest first; `null`: none. */
export interface RecentSeries {
  readonly intervalSeconds: number;
  /** Unix seconds of the starts of the intervals. */
  readonly times: readonly number[];
  /** Responses sent to proxies, a second. */
  readonly pushesPerSecond: readonly number[];
  readonly bytesPerSecond: readonly number[];
  /** Published changes of the configuration, a second. */
  readonly changesPerSecond: readonly number[];
  readonly rejections: readonly number[];
  /** Time from a change until a proxy has acknowledged it, ms. */
  readonly convergenceP50: readonly (number | null)[];
  readonly convergenceP99: readonly (number | null)[];
  readonly proxies: readonly (number | null)[];
  readonly queued: readonly (number | null)[];
  readonly rss: readonly (number | null)[];
  readonly heap: readonly (number | null)[];
}

/** One log line, in `/debug/eventsz`. */
export interface RecentEvent {
  /** Counts from the start of the program. */
  readonly number: number;
  /** Unix ms. */
  readonly at: number;
  readonly level: string;
  readonly scope: string;
  readonly message: string;
}
