/** What a proxy has asked for, and when: the names are strings that exist anyway, and each costs 16 bytes more. */

export interface Ask {
  /** `<route configuration>/<host>` */
  readonly name: string;
  /** Unix ms; undefined: before the proxy reconnected. */
  readonly at: number | undefined;
}

const BEFORE = 0;

export class AskLog {
  readonly #limit: number;
  readonly #names: string[] = [];
  readonly #times: number[] = [];

  /** @param limit names that are kept; a proxy that asks for more gets everything */
  constructor(limit: number) {
    this.#limit = limit;
  }

  add(name: string, at: Ask['at']): void {
    if (this.#names.length >= this.#limit) return;
    this.#names.push(name);
    this.#times.push(at ?? BEFORE);
  }

  get size(): number {
    return this.#names.length;
  }

  /** The first one first. @param from how many are left out */
  *asks(from = 0): Generator<Ask> {
    for (let index = from; index < this.#names.length; index++) {
      const at = this.#times[index];
      yield { name: this.#names[index] ?? '', at: at === BEFORE ? undefined : at };
    }
  }
}
