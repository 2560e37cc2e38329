/**
 * Delays states that look like a file being written until they have lasted for some time: editors and copying tools
 * leave files half-written or absent for a moment.
 */

/** A state that counts once it has lasted. `signature` is `undefined` for a missing file. */
interface Suspicion {
  readonly signature: string | undefined;
  readonly since: number;
  /** When the change was first noticed, monotonic ms. */
  readonly at: number;
}

export class Suspicions {
  readonly #now: () => number;
  readonly #byPath = new Map<string, Suspicion>();

  /** @param now monotonic ms */
  constructor(now: () => number) {
    this.#now = now;
  }

  get size(): number {
    return this.#byPath.size;
  }

  /** Paths whose state does not count yet, and when their change was first noticed. */
  *noticed(): Iterable<readonly [string, number]> {
    for (const [path, { at }] of this.#byPath) yield [path, at];
  }

  /** When the change of a path was first noticed; undefined when it is not suspicious. */
  noticedAt(path: string): number | undefined {
    return this.#byPath.get(path)?.at;
  }

  /** Whether a path has looked like this for `settleMs`; if not, the time counts from now. */
  believe(path: string, signature: string | undefined, at: number, settleMs: number): boolean {
    const now = this.#now();
    const before = this.#byPath.get(path);
    if (before !== undefined && before.signature === signature && now - before.since >= settleMs) {
      this.#byPath.delete(path);
      return true;
    }
    if (before === undefined || before.signature !== signature) this.#byPath.set(path, { signature, since: now, at });
    return false;
  }

  clear(path: string): void {
    this.#byPath.delete(path);
  }

  clearAll(): void {
    this.#byPath.clear();
  }
}
