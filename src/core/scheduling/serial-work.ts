/** Runs asynchronous work sequentially. */
export class SerialWork {
  #last: Promise<unknown> = Promise.resolve();

  /** Starts the work when all previous work has ended, successfully or not. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => {});
    return result;
  }

  /** Resolves when all work so far has ended. */
  async ended(): Promise<void> {
    await this.#last;
  }
}
