/** Divides long work on the main thread into slices, so that streams and probes are served in between. */
import { setImmediate } from 'node:timers/promises';
import type { Slices } from './slices.ts';

/** Maximum duration of a slice, ms: the delay that other work may see. */
const SLICE_MS = 10;

/** Runs tasks one after another; pending work of the event loop runs after each slice. */
export class Slicer {
  readonly #now: () => number;
  /** When the slice began; undefined during a pause. */
  #since: number | undefined;
  #worked = 0;

  /** @param now monotonic ms */
  constructor(now: () => number) {
    this.#now = now;
    this.#since = now();
  }

  /** The total working time so far, ms, without pauses. */
  get worked(): number {
    return this.#since === undefined ? this.#worked : this.#worked + this.#now() - this.#since;
  }

  async run<T>(work: Slices<T>): Promise<T> {
    for (;;) {
      const step = work.next();
      if (step.done === true) return step.value;
      await this.pause();
    }
  }

  /** Resolves at once, or after other work of the event loop when the slice is over. */
  async pause(): Promise<void> {
    if (this.#since !== undefined && this.#now() - this.#since < SLICE_MS) return;
    this.#worked = this.worked;
    this.#since = undefined;
    await setImmediate();
    this.resume();
  }

  /** Ends a pause: the work goes on now. */
  resume(): void {
    this.#since ??= this.#now();
  }
}

/** Work that runs in slices, unless somebody who needs its result finishes it. */
export class SlicedWork {
  /** Resolves when the work has ended; rejects with its error. */
  readonly ended: Promise<void>;
  /** Undefined when it has ended. */
  #work: Slices<void> | undefined;
  readonly #slicer: Slicer;
  #isInStep = false;
  #failure: { readonly error: unknown } | undefined;

  /** Begins the work. */
  constructor(work: Slices<void>, slicer: Slicer) {
    this.#work = work;
    this.#slicer = slicer;
    this.ended = this.#run();
  }

  /** Does the rest at once. Does nothing when called by the work itself. */
  finish(): void {
    if (this.#work !== undefined) this.#slicer.resume();
    while (this.#work !== undefined && !this.#isInStep) this.#step(this.#work);
  }

  async #run(): Promise<void> {
    for (;;) {
      if (this.#work !== undefined) this.#step(this.#work);
      if (this.#work === undefined) break;
      await this.#slicer.pause();
    }
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  #step(work: Slices<void>): void {
    this.#isInStep = true;
    try {
      if (work.next().done === true) this.#work = undefined;
    } catch (error) {
      this.#work = undefined;
      this.#failure = { error };
    } finally {
      this.#isInStep = false;
    }
  }
}
