/** The reports of the other replicas, read by the replica that leads. Reports that are not renewed are deleted. */

import type { Timer } from '../../core/clock.ts';
import { createFailureLog, type FailureLog } from '../../core/log.ts';
import { isObject } from '../../core/objects.ts';
import { ApiError, Informer, LEASES, reportFailure } from '../../kubernetes/index.ts';
import { REPORT_SECONDS, type ReportPlace } from './report-lease.ts';
import { splitReport } from './report-text.ts';

export interface ReplicaReportsOptions extends ReportPlace {
  /**
   * Called with the keys whose entries have changed, and with none to look at all: when the reports have been read for
   * the first time, and when replicas have come or gone.
   */
  onChanged(keys: readonly string[]): void;
}

/** A Lease as it was read. */
interface ReadLease {
  readonly name: string;
  readonly uid: string;
  readonly version: string;
  readonly isOwn: boolean;
  readonly text: string;
}

interface Replica {
  readonly lease: ReadLease;
  /** When this version of the Lease was first seen: clocks of machines differ. */
  readonly seenAt: number;
  /** JSON by key; empty once it has expired. */
  readonly entries: ReadonlyMap<string, string>;
  readonly isExpired: boolean;
}

/** Interval at which expired reports are searched, ms. */
const CHECK_MS = 5_000;
const NOTHING: ReadonlyMap<string, string> = new Map();

export class ReplicaReports {
  readonly #options: ReplicaReportsOptions;
  readonly #leases: Informer<ReadLease>;
  readonly #failures: FailureLog;
  /** By name of the Lease. */
  readonly #replicas = new Map<string, Replica>();
  #areRead = false;
  #timer: Timer | undefined;

  constructor(options: ReplicaReportsOptions) {
    this.#options = options;
    const { client, namespace, kind, identity, log } = options;
    const what = `reports of other replicas about ${kind.about}`;
    const failures = createFailureLog(log, `${what} cannot be read`, `${what} can be read again`);
    this.#failures = createFailureLog(
      log,
      'the Lease of a replica that has ended cannot be deleted',
      'Leases of replicas that have ended can be deleted again',
    );
    const labelSelector = `${kind.label}=${kind.group}`;
    this.#leases = new Informer<ReadLease>({
      connection: client.connection,
      type: LEASES,
      namespace,
      labelSelector,
      convert: ({ metadata, spec }) => ({
        name: metadata.name,
        uid: metadata.uid ?? '',
        version: metadata.resourceVersion ?? '',
        isOwn: isObject(spec) && spec.holderIdentity === identity,
        text: metadata.annotations?.[kind.annotation] ?? '',
      }),
      onChange: (changes) => {
        const isFirst = !this.#areRead;
        this.#areRead = true;
        for (const { name, after } of changes) {
          if (after === undefined) this.#replace(name, undefined);
          else this.#set(after);
        }
        // Also without other replicas: until now, it was not known that there are none.
        if (isFirst) options.onChanged([]);
      },
      failures,
    });
  }

  start(): void {
    this.#leases.start();
    this.#check();
  }

  async close(): Promise<void> {
    this.#timer?.cancel();
    await this.#leases.close();
  }

  /** Whether the reports have been read. */
  get areKnown(): boolean {
    return this.#areRead;
  }

  /** The entry of each other replica about a key, as JSON; undefined for a replica that reports nothing about it. */
  of(key: string): readonly (string | undefined)[] {
    const present = [...this.#replicas.values()].filter(({ isExpired }) => !isExpired);
    return present.map(({ entries }) => entries.get(key));
  }

  #set(lease: ReadLease): void {
    const known = this.#replicas.get(lease.name);
    // The Lease was listed again without a change.
    if (lease.isOwn || known?.lease.version === lease.version) return;
    const isKnown = known?.lease.text === lease.text && !known.isExpired;
    const entries = isKnown ? known.entries : splitReport(lease.text);
    this.#replace(lease.name, { lease, seenAt: this.#options.clock.now(), entries, isExpired: false });
  }

  #replace(name: string, replica: Replica | undefined): void {
    const known = this.#replicas.get(name);
    const before = known?.entries ?? NOTHING;
    const after = replica?.entries ?? NOTHING;
    if (replica === undefined) this.#replicas.delete(name);
    else this.#replicas.set(name, replica);
    const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
      (key) => before.get(key) !== after.get(key),
    );
    const isPresent = replica?.isExpired === false;
    if (changed.length > 0) this.#options.onChanged(changed);
    // A replica that is gone is not waited for any more, also with what it has not reported about.
    if ((known?.isExpired === false) !== isPresent) this.#options.onChanged([]);
  }

  #check(): void {
    const { clock } = this.#options;
    for (const [name, { lease, seenAt }] of this.#replicas) {
      if (clock.now() - seenAt < REPORT_SECONDS * 1000) continue;
      this.#replace(name, { lease, seenAt, entries: NOTHING, isExpired: true });
      void this.#delete(lease);
    }
    this.#timer = clock.setTimer(CHECK_MS, () => this.#check());
  }

  /** Keeps a Lease that was renewed meanwhile. Does not reject. */
  async #delete({ name, uid, version }: ReadLease): Promise<void> {
    const { client, namespace } = this.#options;
    try {
      await client.delete(LEASES, name, { namespace, uid, resourceVersion: version });
      this.#failures.succeeded();
    } catch (error) {
      if (!(error instanceof ApiError && (error.status === 404 || error.status === 409)))
        reportFailure(this.#failures, error);
    }
  }
}
