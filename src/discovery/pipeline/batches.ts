/**
 * Applies what sources report: a small batch at once, a large one in slices if its source can wait, so that proxies and
 * probes are served in between. Batches of a source are applied in their order. Changes should be taken between batches
 * only, so that a file counts as a whole or not at all.
 */
import { SlicedWork, Slicer } from '../../core/slicer.ts';
import { finish, type Slices } from '../../core/slices.ts';

/** Most events of a batch that is applied at once: they take a few milliseconds. */
export const MAX_AT_ONCE = 500;

export class Batches {
  readonly #now: () => number;
  /** By source. */
  readonly #running = new Map<string, SlicedWork>();

  /** @param now monotonic ms */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Applies a batch of a source at once. Throws the error of the work. */
  run(source: string, work: Slices<void>): void {
    this.finish(source);
    finish(work);
  }

  /**
   * Applies a batch of a source, a large one in slices. Resolves when it has been applied, and rejects with the error
   * of the work; undefined for a small one.
   *
   * @param events number of them
   */
  runInSlices(source: string, events: number, work: Slices<void>): Promise<void> | undefined {
    this.finish(source);
    if (events <= MAX_AT_ONCE) {
      finish(work);
      return undefined;
    }
    const running = new SlicedWork(work, new Slicer(this.#now));
    this.#running.set(source, running);
    return running.ended.finally(() => {
      if (this.#running.get(source) === running) this.#running.delete(source);
    });
  }

  /** Applies the rest of the batches of a source at once; of all sources without one. */
  finish(source?: string): void {
    if (source !== undefined) this.#running.get(source)?.finish();
    else for (const running of this.#running.values()) running.finish();
  }

  /** Resolves when the batches that are being applied have ended; undefined when there are none. */
  ended(): Promise<unknown> | undefined {
    if (this.#running.size === 0) return undefined;
    return Promise.allSettled(Array.from(this.#running.values(), ({ ended }) => ended));
  }
}
