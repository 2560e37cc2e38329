/**
 * Applies what sources report: a small batch at once, a large one in slices, so that proxies and probes are served in
 * between. Batches of a source are applied in their order. Changes should be taken between batches only, so that a file
 * counts as a whole or not at all.
 */
import { messageOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { SlicedWork, Slicer } from '../../core/slicer.ts';
import { finish, type Slices } from '../../core/slices.ts';

/** Most events of a batch that is applied at once: they take a few milliseconds. */
export const MAX_AT_ONCE = 500;

export class Batches {
  readonly #now: () => number;
  readonly #log: Pick<Log, 'error'>;
  /** By source. */
  readonly #running = new Map<string, SlicedWork>();
  #isSliced = false;

  /** @param now monotonic ms */
  constructor(now: () => number, log: Pick<Log, 'error'>) {
    this.#now = now;
    this.#log = log;
  }

  /** Large batches are applied in slices from now on: before, nobody is served, and what starts needs their results. */
  slice(): void {
    this.#isSliced = true;
  }

  /** Applies a batch of a source. @param events number of them */
  run(source: string, events: number, work: Slices<void>): void {
    this.finish(source);
    if (!this.#isSliced || events <= MAX_AT_ONCE) {
      finish(work);
      return;
    }
    const running = new SlicedWork(work, new Slicer(this.#now));
    this.#running.set(source, running);
    running.ended
      .catch((error: unknown) => this.#log.error(`cannot apply changes of ${source}: ${messageOf(error)}`))
      .finally(() => {
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
