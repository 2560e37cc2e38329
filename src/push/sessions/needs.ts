/** Streams of one session that wait until types are generated. */
import type { GeneratedType } from '../../generate/index.ts';

type Types = ReadonlySet<GeneratedType>;

interface Need {
  readonly types: Types;
  readonly promise: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class Needs {
  #waiting: readonly Need[] = [];

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  /** What waits for these types already. */
  find(types: Types): Promise<void> | undefined {
    return this.#waiting.find((need) => types.isSubsetOf(need.types))?.promise;
  }

  add(types: Types): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    // Without a listener, a rejection would end the process.
    promise.catch(() => {});
    this.#waiting = [...this.#waiting, { types, promise, resolve, reject }];
    return promise;
  }

  /** Ends the waits for types that are served. */
  resolve(serves: (types: Types) => boolean): void {
    if (this.isEmpty) return;
    for (const need of this.#waiting) if (serves(need.types)) need.resolve();
    this.#waiting = this.#waiting.filter(({ types }) => !serves(types));
  }

  reject(error: unknown): void {
    for (const { reject } of this.#waiting) reject(error);
    this.#waiting = [];
  }
}
