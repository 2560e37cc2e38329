/** Long work that is divided into slices, so that other work can run in between. */

/** Work that yields wherever it may be interrupted, and returns its result. */
export type Slices<T> = Generator<undefined, T>;

/** Does the work without interruption. */
export function finish<T>(work: Slices<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}
