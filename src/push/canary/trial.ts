/**
 * One trial: a few proxies of a view, its canaries, are sent changed resources before the others. A pure state machine;
 * time, the choice of canaries and what they answer come in from outside.
 *
 * - What one canary accepts is released.
 * - What is rejected is withheld only if enough callers say so: two where the proxies of the view belong to several
 *   callers, so that no caller can keep a change from the proxies of another; otherwise one, for its own proxies.
 * - Anything else is released at the deadline: a canary that lies, is silent or leaves only ends the protection.
 */
import type { ResourceAnswer } from '../types.ts';

/** Canaries of a trial at a time: two, so that one that is silent delays nothing, and one that rejects is confirmed. */
export const CANARIES = 2;

/** Most canaries of a trial: those that leave are replaced, but no more proxies than these are sent what is rejected. */
export const MAX_CANARIES = 4;

/** A canary's rejection. */
export interface Refusal<C> {
  readonly canary: C;
  readonly caller: string;
  readonly message: string;
}

export interface Outcome<C> {
  /** Items that a canary has accepted. */
  readonly accepted: ReadonlySet<string>;
  /** Items to be withheld, and who rejected them. */
  readonly refused: ReadonlyMap<string, readonly Refusal<C>[]>;
}

/** How many callers have to reject what is withheld from the proxies of this many. */
export function refusalsNeeded(callers: number): number {
  return callers > 1 ? 2 : 1;
}

interface Canary {
  readonly caller: string;
  readonly answers: Map<string, ResourceAnswer>;
}

/** @template C identifies a canary */
export class Trial<C> {
  readonly items: ReadonlySet<string>;
  /** Monotonic ms. */
  readonly deadline: number;
  readonly #canaries = new Map<C, Canary>();
  #asked = 0;

  /** @param items what is tried */
  constructor(items: ReadonlySet<string>, deadline: number) {
    this.items = items;
    this.deadline = deadline;
  }

  /** Whether another canary should be chosen. */
  get needsCanary(): boolean {
    return this.#canaries.size < CANARIES && this.#asked < MAX_CANARIES;
  }

  has(canary: C): boolean {
    return this.#canaries.has(canary);
  }

  /** The canaries that are connected. */
  canaries(): ReadonlySet<C> {
    return new Set(this.#canaries.keys());
  }

  /** The callers of the canaries that are connected. */
  callers(): ReadonlySet<string> {
    return new Set(Array.from(this.#canaries.values(), ({ caller }) => caller));
  }

  add(canary: C, caller: string): void {
    if (!this.needsCanary || this.#canaries.has(canary)) return;
    this.#asked++;
    this.#canaries.set(canary, { caller, answers: new Map() });
  }

  /** A canary is gone, and its answers with it. False when it was none. */
  remove(canary: C): boolean {
    return this.#canaries.delete(canary);
  }

  /** A canary has answered something: `read` says what became of each item that it has not accepted before. */
  answered(canary: C, read: (item: string) => ResourceAnswer): void {
    const answers = this.#canaries.get(canary)?.answers;
    if (answers === undefined) return;
    for (const item of this.items) if (answers.get(item) !== 'accepted') answers.set(item, read(item));
  }

  /** The canaries whose answer is still awaited. */
  silent(): readonly C[] {
    return [...this.#canaries]
      .filter(([, { answers }]) => [...this.items].some((item) => !isFinal(answers.get(item))))
      .map(([canary]) => canary);
  }

  /** There is nothing to wait for any more. */
  get decided(): boolean {
    const all = [...this.#canaries.values()];
    for (const item of this.items) {
      const answers = all.map((canary) => canary.answers.get(item));
      if (!answers.includes('accepted') && !answers.every(isFinal)) return false;
    }
    return true;
  }

  /** @param callers number of callers that have proxies in the view */
  outcome(callers: number): Outcome<C> {
    const accepted = new Set<string>();
    const refused = new Map<string, readonly Refusal<C>[]>();
    const needed = refusalsNeeded(callers);
    for (const item of this.items) {
      const refusals: Refusal<C>[] = [];
      const by = new Set<string>();
      for (const [canary, { caller, answers }] of this.#canaries) {
        const answer = answers.get(item);
        if (answer === 'accepted') accepted.add(item);
        else if (typeof answer === 'object') {
          refusals.push({ canary, caller, message: answer.rejected });
          by.add(caller);
        }
      }
      if (!accepted.has(item) && by.size >= needed) refused.set(item, refusals);
    }
    return { accepted, refused };
  }
}

/** Whether the canary will say nothing else about the item. */
function isFinal(answer: ResourceAnswer | undefined): boolean {
  if (answer === undefined || answer === 'outstanding') return false;
  return typeof answer === 'string' || answer.certain;
}
