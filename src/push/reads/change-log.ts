/**
 * The changes since the oldest running job was submitted. What a job reads is known only when it is done; units that
 * read something that changed in the meantime have to be generated again.
 */
import type { ChangedFacts } from '../../generate/index.ts';
import { mergedPush, type Push } from '../push.ts';

/** The changes of one snapshot, and their push. */
export interface LoggedChange {
  readonly changed: ChangedFacts;
  readonly push: Push;
}

/**
 * Maximum number of changes that are kept; there are only more while a job hangs. The oldest are then merged into one
 * that marks everything as changed.
 */
const MAX_CHANGES = 1024;

export class ChangeLog<Job> {
  readonly #changes: LoggedChange[] = [];
  /** Running jobs → the version at which they were submitted, in ascending order. */
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
    this.#changes.unshift({ changed: everything, push: mergedPush(next.push, oldest.push) });
  }

  /** The changes after a version. */
  after(version: number): readonly LoggedChange[] {
    return this.#changes.filter(({ push }) => push.version > version);
  }

  #trim(): void {
    const [oldest = Number.POSITIVE_INFINITY] = this.#begun.values();
    const kept = this.#changes.findIndex(({ push }) => push.version > oldest);
    this.#changes.splice(0, kept < 0 ? this.#changes.length : kept);
  }
}
