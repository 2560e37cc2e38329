/** The names of a first request that do not exist, which responses report to the proxy in portions. */
import { covers, type Interest } from '../interest.ts';
import type { Plan } from '../plans/plan.ts';
import { PORTION, Portions } from './portions.ts';

export class MissingNames {
  /** Names of which it was not checked yet whether they exist. */
  #unchecked: Portions | undefined;

  /** No name is left to be checked. */
  get checked(): boolean {
    return this.#unchecked === undefined;
  }

  clear(): void {
    this.#unchecked = undefined;
  }

  /** Begins to check which names exist, unless the response has all of them. */
  check({ wildcard, names }: Interest, { changed }: Plan): void {
    this.clear();
    if (!wildcard && changed.length >= names.size) return;
    // In an order that does not depend on which proxy subscribed first; with very many names, sorting takes too long.
    this.#unchecked = new Portions();
    this.#unchecked.add(names.size <= PORTION ? names.sorted() : names.names);
  }

  /** The plan, with the names as removed of which `isMissing` is true. */
  added(plan: Plan, interest: Interest, isMissing: (name: string) => boolean): Plan {
    if (this.#unchecked === undefined) return plan;
    const missing = this.#unchecked.take((name) => covers(interest, name) && isMissing(name));
    if (this.#unchecked.empty) this.#unchecked = undefined;
    return missing.length === 0 ? plan : { ...plan, removed: [...plan.removed, ...missing], missing };
  }
}
