/**
 * Reports about proxies between replicas. A replica that leads reads those of the others, and knows what its own
 * proxies have; each of the others has its report in a Lease:
 *
 *   own proxies ─┬─ where this replica leads ─▶ statuses ◀── reports of the others
 *                └─ elsewhere ─▶ Lease of the replica ─▶ replica that leads
 */
import { ReplicaReports } from './replica-reports.ts';
import { ReportLease, type ReportLeaseOptions } from './report-lease.ts';

interface Leading {
  readonly others: ReplicaReports;
  onChanged(keys: readonly string[]): void;
}

export class ReportExchange {
  readonly #options: ReportLeaseOptions;
  readonly #lease: ReportLease;
  /** Undefined when this replica does not lead. */
  #leading: Leading | undefined;

  /** @param options `report` is the report of this replica's proxies, called while it does not lead */
  constructor(options: ReportLeaseOptions) {
    this.#options = options;
    this.#lease = new ReportLease({
      ...options,
      report: () => (this.#leading === undefined ? options.report() : undefined),
    });
  }

  /** What this replica's proxies have may have changed. `keys` are for the replica that leads. */
  changed(keys: readonly string[]): void {
    if (this.#leading === undefined) this.#lease.changed();
    else this.#leading.onChanged(keys);
  }

  /** The entry of each other replica about a key, as JSON; undefined for a replica that reports nothing about it. */
  of(key: string): readonly (string | undefined)[] {
    return this.#leading?.others.of(key) ?? [];
  }

  /** Whether this replica leads and has read the reports of the others. */
  get areKnown(): boolean {
    return this.#leading?.others.areKnown === true;
  }

  /**
   * This replica leads until the returned function is called. `onChanged` gets the keys whose entries have changed;
   * none: replicas have come or gone.
   */
  follow(onChanged: (keys: readonly string[]) => void): () => Promise<void> {
    const others = new ReplicaReports({ ...this.#options, onChanged });
    const leading = { others, onChanged };
    this.#leading = leading;
    others.start();
    this.#lease.changed();
    return async () => {
      if (this.#leading === leading) this.#leading = undefined;
      this.#lease.changed();
      await others.close();
    };
  }

  /** Deletes the Lease. */
  close(): Promise<void> {
    return this.#lease.close();
  }
}
