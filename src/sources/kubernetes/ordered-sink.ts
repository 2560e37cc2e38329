/**
 * Passes what the collections of a source report to its sink, in order. Long lists and many changes are applied in
 * slices: what is reported meanwhile, of whatever collection, waits, so that no change overtakes a list that is older.
 *
 * A collection pauses reading while something of it waits, so that little does.
 */
import type { ResourceEvent, ResourceList } from '../../resources/index.ts';
import { applyInSlices, replaceInSlices, type SourceSink } from '../source.ts';

/** Undefined: it was applied at once. Throws, or rejects, when something of it cannot be applied. */
export type Applied = Promise<void> | undefined;

interface Waiting {
  readonly work: () => Applied;
  readonly done: PromiseWithResolvers<void>;
}

export class OrderedSink {
  readonly #sink: SourceSink;
  #waiting: Waiting[] = [];
  #isBusy = false;

  constructor(sink: SourceSink) {
    this.#sink = sink;
  }

  /** Changes of documents. */
  apply(events: readonly ResourceEvent[]): Applied {
    return this.#inTurn(() => applyInSlices(this.#sink, events));
  }

  /** All documents that the list covers. */
  replace(list: ResourceList): Applied {
    return this.#inTurn(() => replaceInSlices(this.#sink, list));
  }

  /** Drops what waits: its promises do not settle. */
  close(): void {
    this.#waiting = [];
  }

  #inTurn(work: () => Applied): Applied {
    if (!this.#isBusy) return this.#begin(work);
    const done = Promise.withResolvers<void>();
    this.#waiting.push({ work, done });
    return done.promise;
  }

  #begin(work: () => Applied): Applied {
    const applied = work();
    if (applied === undefined) return undefined;
    this.#isBusy = true;
    const next = (): void => {
      this.#isBusy = false;
      this.#continue();
    };
    applied.then(next, next);
    return applied;
  }

  #continue(): void {
    while (!this.#isBusy) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      const { work, done } = next;
      try {
        const applied = this.#begin(work);
        if (applied === undefined) done.resolve();
        else applied.then(done.resolve, done.reject);
      } catch (error) {
        done.reject(error);
      }
    }
  }
}
