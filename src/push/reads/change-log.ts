/**
 * What has changed while jobs are under way. What a job reads is known when it is done: what of that changed meanwhile
 * has to be made again. Kept for as long as a job is under way that may have been taken before the change.
 */
import type { ChangedFacts } from '../../generate/index.ts';
import type { PushReason } from '../types.ts';

/** A publication's change. */
export interface LoggedChange {
  readonly version: number;
  readonly changed: ChangedFacts;
  /** Monotonic ms of the first event in it. */
  readonly eventTime: number;
  readonly reasons: ReadonlySet<PushReason>;
}

/**
 * Changes that are remembered: more come only while a job hangs. Who has missed some is told that everything changed.
 */
const MAX_CHANGES = 1024;

export class ChangeLog<Job> {
  readonly #changes: LoggedChange[] = [];
  /** Jobs under way → the version that they began at, which never falls from one to the next. */
  readonly #begun = new Map<Job, number>();

  begin(job: Job, version: number): void {
    this.#begun.delete(job);
    this.#begun.set(job, version);
  }

  end(job: Job): void {
    if (this.#begun.delete(job)) this.#trim();
  }

  add(change: LoggedChange): void {
    if (this.#begun.size === 0) return;
    this.#changes.push(change);
    if (this.#changes.length <= MAX_CHANGES) return;
    const [oldest, next] = this.#changes.splice(0, 2);
    if (oldest === undefined || next === undefined) return;
    const everything = { everything: true, meshWide: new Map(), scopes: new Map() };
    this.#changes.unshift({ ...next, eventTime: oldest.eventTime, changed: everything });
  }

  /** What has changed after a version. */
  after(version: number): readonly LoggedChange[] {
    return this.#changes.filter((change) => change.version > version);
  }

  #trim(): void {
    const [oldest = Number.POSITIVE_INFINITY] = this.#begun.values();
    const kept = this.#changes.findIndex(({ version }) => version > oldest);
    this.#changes.splice(0, kept < 0 ? this.#changes.length : kept);
  }
}
