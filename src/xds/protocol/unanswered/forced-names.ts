/**
 * Names that responses must contain even if the proxy has their current version: subscribed to just now or again, or
 * waited for by Envoy (the endpoints of a changed cluster). Most subscriptions have none.
 */
import type { Plan } from '../plans/plan.ts';
import { Portions } from './portions.ts';

const NONE: ReadonlySet<string> = new Set();

export class ForcedNames {
  #next: Set<string> | undefined;
  /** For later responses, if they are many. */
  #later: Portions | undefined;

  /** The names that the next response must contain. */
  get next(): ReadonlySet<string> {
    return this.#next ?? NONE;
  }

  /** Number of names that the next response must contain. */
  get size(): number {
    return this.next.size;
  }

  has(name: string): boolean {
    return this.next.has(name);
  }

  add(name: string): void {
    this.#next ??= new Set();
    this.#next.add(name);
  }

  delete(name: string): void {
    this.#next?.delete(name);
  }

  clear(): void {
    this.#next = undefined;
    this.#later = undefined;
  }

  /** Whether names wait for a later response. */
  get hasLater(): boolean {
    return this.#later !== undefined;
  }

  /** For later responses, a portion at a time. The names are not changed meanwhile. */
  addLater(names: ReadonlySet<string> | readonly string[]): void {
    this.#later ??= new Portions();
    this.#later.add(names);
  }

  /** The same for names that the proxy requests; throws if too many wait. */
  requestLater(names: ReadonlySet<string> | readonly string[]): void {
    this.#later ??= new Portions();
    this.#later.request(names);
  }

  /** Takes the next portion of those for later responses that match. */
  takeLater(fits: (name: string) => boolean): readonly string[] {
    const taken = this.#later?.take(fits) ?? [];
    if (this.#later?.empty === true) this.#later = undefined;
    return taken;
  }

  /** Those in the plan. */
  in(plan: Plan): ReadonlySet<string> {
    const forced = this.next;
    if (forced.size === 0 || plan.ofSearch !== true) return forced;
    return new Set(plan.changed.flat().flatMap(({ name }) => (forced.has(name) ? [name] : [])));
  }

  /** The plan has answered them. Names that wait for a search stay until then. */
  answered(plan: Plan): void {
    if (plan.ofSearch !== true) this.#next = undefined;
    else for (const { name } of plan.changed.flat()) this.delete(name);
  }
}
