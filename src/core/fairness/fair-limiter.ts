/**
 * Limits a resource that all clients share, such as connections, operations or memory, so that no client exhausts it:
 * each may have a multiple of the units that are still free, whatever the number of clients.
 */
export class FairLimiter {
  readonly #max: number;
  readonly #perFree: number;
  readonly #ofClient = new Map<string, number>();
  #all = 0;

  /**
   * @param max units of all clients together; Infinity: no limit
   * @param perFree units that a client may have for each free one. With 1, a client alone gets half, and two get a
   * third each; with 4, a client alone gets four of five
   */
  constructor(max: number, perFree = 1) {
    this.#max = max;
    this.#perFree = perFree;
  }

  /** Units that are taken. */
  get size(): number {
    return this.#all;
  }

  /**
   * Takes one unit or several.
   * @returns releases them; further calls have no effect. Undefined when this client cannot have as many
   */
  enter(client: string, units = 1): (() => void) | undefined {
    if (!this.admits(client, units)) return undefined;
    this.#all += units;
    this.#ofClient.set(client, (this.#ofClient.get(client) ?? 0) + units);
    let released = false;
    return () => {
      if (!released) this.#release(client, units);
      released = true;
    };
  }

  /** Whether this client can have as many units now. */
  admits(client: string, units = 1): boolean {
    const used = this.#ofClient.get(client) ?? 0;
    // The result is the same as when they are taken one by one.
    const last = units - 1;
    return used + last < this.#perFree * (this.#max - this.#all - last);
  }

  #release(client: string, units: number): void {
    this.#all -= units;
    const used = (this.#ofClient.get(client) ?? 0) - units;
    if (used > 0) this.#ofClient.set(client, used);
    else this.#ofClient.delete(client);
  }
}
