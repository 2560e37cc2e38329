/** Streams that wait until something is generated. */

interface Waiting {
  /** Undefined: everything. */
  readonly names: ReadonlySet<string> | undefined;
  /** Undefined: several. */
  readonly by: object | undefined;
  readonly promise: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class Waiters {
  #waiting: Waiting[] = [];
  /** Who waits, or has waited. */
  readonly #by = new WeakSet<object>();

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  /**
   * @param names undefined: everything, for which thousands of proxies may wait
   * @param by who waits, and does not any more after {@link left}
   */
  add(names: ReadonlySet<string> | undefined, by?: object): Promise<void> {
    const known = names === undefined ? this.#waiting.find((each) => each.names === undefined) : undefined;
    if (known !== undefined) return known.promise;
    const waiting = { names, by: names && by, ...Promise.withResolvers<void>() };
    this.#waiting.push(waiting);
    if (waiting.by !== undefined) this.#by.add(waiting.by);
    return listened(waiting.promise);
  }

  /** Those wait no longer for which this is true. */
  resolve(isGenerated: (names: ReadonlySet<string> | undefined) => boolean): void {
    this.#end(({ names }) => isGenerated(names));
  }

  /** Goes on without what it waits for by name: it has left the view, for which nothing may be generated any more. */
  left(by: object): void {
    if (this.#by.delete(by)) this.#end((waiting) => waiting.by === by);
  }

  #end(isOver: (waiting: Waiting) => boolean): void {
    const before = this.#waiting;
    if (before.length === 0) return;
    this.#waiting = before.filter((waiting) => !isOver(waiting));
    const left = new Set(this.#waiting);
    for (const waiting of before) if (!left.has(waiting)) waiting.resolve();
  }

  /** @param fails whether those fail that wait for these names */
  reject(error: unknown, fails: (names: ReadonlySet<string> | undefined) => boolean = () => true): void {
    const before = this.#waiting;
    this.#waiting = [];
    const failed = before.filter((waiting) => {
      const isFailed = fails(waiting.names);
      if (!isFailed) this.#waiting.push(waiting);
      return isFailed;
    });
    for (const { reject } of failed) reject(error);
  }
}

/** A promise that is rejected, with a listener: without one, a rejection would end the process. */
export function rejected(error: unknown): Promise<void> {
  return listened(Promise.reject(error));
}

function listened(promise: Promise<void>): Promise<void> {
  promise.catch(() => {});
  return promise;
}
