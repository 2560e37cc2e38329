/** All keys, passed on in slices, so that other work runs in between. */

export interface SlicedKeysOptions {
  readonly keys: () => readonly string[];
  pass(keys: readonly string[]): void;
}

/** The number of keys in a slice. */
const SLICE = 500;

export class SlicedKeys {
  readonly #options: SlicedKeysOptions;
  /** Undefined when no slice is due. */
  #next: NodeJS.Immediate | undefined;
  /** Whether all keys are passed on once more: some were before the last change. */
  #again = false;

  constructor(options: SlicedKeysOptions) {
    this.#options = options;
  }

  /** Passes all keys on, from the next turn of the event loop. */
  start(): void {
    if (this.#next === undefined) this.#next = setImmediate(() => this.#slice(this.#options.keys(), 0));
    else this.#again = true;
  }

  close(): void {
    clearImmediate(this.#next);
  }

  #slice(keys: readonly string[], at: number): void {
    this.#next = undefined;
    this.#options.pass(keys.slice(at, at + SLICE));
    if (at + SLICE < keys.length) this.#next = setImmediate(() => this.#slice(keys, at + SLICE));
    else if (this.#again) {
      this.#again = false;
      this.start();
    }
  }
}
