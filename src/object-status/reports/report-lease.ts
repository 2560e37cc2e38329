/**
 * The report of this replica about its proxies, in a Lease of the program's namespace that is renewed while the replica
 * runs. A replica that leads writes no report, because it knows what its own proxies have.
 */
import { backoff } from '../../core/backoff.ts';
import type { Clock, Timer } from '../../core/clock.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import {
  ApiError,
  type KubernetesClient,
  type KubernetesObject,
  LEASES,
  microTime,
  reportFailure,
} from '../../kubernetes/index.ts';

/** A report that was not renewed for this time is that of a replica that has ended, seconds. */
export const REPORT_SECONDS = 30;

/** Interval between two writes while the report changes, ms. */
const WRITE_MS = 1_000;
/** Bytes of reports that a replica writes in a millisecond, on average: a large report is written less often. */
const BYTES_PER_MS = 25;
const RENEW_MS = 10_000;
const RETRY_MAX_MS = 60_000;
/** Time limit for the deletion when the replica ends, ms. */
const CLOSE_TIMEOUT_MS = 2_000;

/** A kind of reports. */
export interface ReportKind {
  /** The first part of the names of Leases. */
  readonly prefix: string;
  /** The label of Leases. */
  readonly label: string;
  /** Its value: replicas of the same value read each other's reports. */
  readonly group: string;
  /** The annotation that has the report. */
  readonly annotation: string;
  /** What the reports are about, for the log: `gateway proxies`. */
  readonly about: string;
}

export interface ReportPlace {
  readonly kind: ReportKind;
  readonly client: KubernetesClient;
  /** The namespace of the program. */
  readonly namespace: string;
  /** The identity of this replica, which no other Lease has. */
  readonly identity: string;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly log: Log;
}

export interface ReportLeaseOptions extends ReportPlace {
  /** The last part of the Lease's name. */
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** The report; undefined when there is nothing to report. */
  readonly report: () => string | undefined;
}

export class ReportLease {
  readonly #options: ReportLeaseOptions;
  readonly #failures: FailureLog;
  readonly #name: string;
  /** The Lease as it was written last; undefined when it does not exist. */
  #lease: KubernetesObject | undefined;
  /** The last write failed: it may have been made, or somebody else changed the Lease. */
  #isUncertain = false;
  #writtenAt = Number.NEGATIVE_INFINITY;
  #text: string | undefined;
  #attempts = 0;
  #timer: { readonly at: number; readonly timer: Timer } | undefined;
  #running: Promise<void> | undefined;
  #closed = false;

  constructor(options: ReportLeaseOptions) {
    this.#options = options;
    const { prefix, about } = options.kind;
    this.#name = `${prefix}${options.id}`;
    this.#failures = createFailureLog(
      options.log,
      `cannot write the Lease with the report about ${about}`,
      `can write the Lease with the report about ${about} again`,
    );
  }

  /** The report may have changed. */
  changed(): void {
    // After a failure the attempts have a longer interval.
    if (this.#attempts > 0) return;
    const pause = Math.max(WRITE_MS, (this.#text?.length ?? 0) / BYTES_PER_MS);
    this.#writeAfter(this.#writtenAt + pause - this.#options.clock.now());
  }

  /** Deletes the Lease. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.timer.cancel();
    await this.#running;
    // If the deletion fails, the leader deletes the Lease after it has expired.
    if (this.#lease !== undefined) await this.#write(undefined).catch(() => {});
  }

  #writeAfter(ms: number): void {
    const { clock } = this.#options;
    const at = clock.now() + Math.max(ms, 0);
    if (this.#closed || (this.#timer !== undefined && this.#timer.at <= at)) return;
    this.#timer?.timer.cancel();
    const run = (): void => {
      this.#timer = undefined;
      if (this.#running !== undefined) this.#writeAfter(WRITE_MS);
      else
        this.#running = this.#run().finally(() => {
          this.#running = undefined;
        });
    };
    this.#timer = { at, timer: clock.setTimer(Math.max(ms, 0), run) };
  }

  /** Does not reject. */
  async #run(): Promise<void> {
    const { clock, random, report } = this.#options;
    try {
      if (this.#isUncertain) this.#lease = await this.#read();
      this.#isUncertain = false;
      const text = report();
      const isDue = clock.now() - this.#writtenAt >= RENEW_MS;
      const isWritten = text === undefined ? this.#lease === undefined : text === this.#text && !isDue;
      if (!isWritten) await this.#write(text);
      this.#attempts = 0;
      this.#failures.succeeded();
      if (text !== undefined) this.#writeAfter(this.#writtenAt + RENEW_MS - clock.now());
    } catch (error) {
      this.#isUncertain = true;
      this.#text = undefined;
      reportFailure(this.#failures, error);
      this.#writeAfter(backoff(++this.#attempts, WRITE_MS, RETRY_MAX_MS, random));
    }
  }

  async #read(): Promise<KubernetesObject | undefined> {
    const { client, namespace } = this.#options;
    try {
      return await client.get(LEASES, this.#name, { namespace });
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  /** @param text undefined deletes the Lease */
  async #write(text: string | undefined): Promise<void> {
    const { client, namespace, kind, identity, clock, now } = this.#options;
    const name = this.#name;
    this.#writtenAt = clock.now();
    if (text === undefined) {
      if (this.#lease !== undefined) await client.delete(LEASES, name, { namespace, timeoutMs: CLOSE_TIMEOUT_MS });
      this.#lease = undefined;
    } else {
      const resourceVersion = this.#lease?.metadata.resourceVersion;
      const object = {
        metadata: {
          name,
          namespace,
          labels: { [kind.label]: kind.group },
          annotations: { [kind.annotation]: text },
          ...(resourceVersion === undefined ? {} : { resourceVersion }),
        },
        spec: { holderIdentity: identity, leaseDurationSeconds: REPORT_SECONDS, renewTime: microTime(now()) },
      };
      this.#lease =
        this.#lease === undefined
          ? await client.create(LEASES, object, { namespace })
          : await client.update(LEASES, name, object, { namespace });
    }
    this.#text = text;
  }
}
