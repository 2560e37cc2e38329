/**
 * Sets of facts cross the border of threads once: a worker tells each fact, and each set of facts, when it is first
 * read, and names it by its number from then on.
 */
import type { Fact, Facts } from '../../generate/index.ts';
import type { ReadsMessage } from '../protocol.ts';
import { ReadSet } from './read-index.ts';

/** No set. */
export const NO_READS = -1;

/**
 * Facts and sets that are remembered; where there are more, a worker begins anew. Facts of what is long gone are among
 * them.
 */
const MAX_REMEMBERED = 400_000;

/** The worker's side. */
export class SentReads {
  #facts = new Map<Fact, number>();
  #sets = new Map<string, number>();
  #fresh = true;
  #newFacts: Fact[] = [];
  #newSets: number[] = [];

  /** The number of a set of facts. */
  send(facts: Facts): number {
    const numbers = facts.map((fact) => this.#numberOf(fact));
    const key = numbers.join();
    let number = this.#sets.get(key);
    if (number === undefined) {
      number = this.#sets.size;
      this.#sets.set(key, number);
      this.#newSets.push(numbers.length, ...numbers);
    }
    return number;
  }

  /** What has to be told with the numbers that were said since this was asked last. */
  take(): ReadsMessage {
    const told = { fresh: this.#fresh, facts: this.#newFacts, sets: Uint32Array.from(this.#newSets) };
    this.#newFacts = [];
    this.#newSets = [];
    this.#fresh = this.#facts.size + this.#sets.size > MAX_REMEMBERED;
    if (this.#fresh) {
      this.#facts = new Map();
      this.#sets = new Map();
    }
    return told;
  }

  #numberOf(fact: Fact): number {
    let number = this.#facts.get(fact);
    if (number === undefined) {
      number = this.#facts.size;
      this.#facts.set(fact, number);
      this.#newFacts.push(fact);
    }
    return number;
  }
}

/** Sets by number, as the answers of one worker name them. */
export type NumberedReads = readonly ReadSet[];

/** The main thread's side: one for each worker, begun anew whenever that is told to forget. */
export class ReceivedReads {
  #facts: Fact[] = [];
  #sets: ReadSet[] = [];

  /**
   * Takes over what an answer tells; returns the sets that it names. Throws TypeError for numbers that were never told.
   */
  receive({ fresh, facts, sets }: ReadsMessage): NumberedReads {
    if (fresh) {
      // Those who were given the others go on with them.
      this.#facts = [];
      this.#sets = [];
    }
    for (const fact of facts) this.#facts.push(fact);
    for (let at = 0; at < sets.length; ) {
      const end = at + 1 + (sets[at] ?? 0);
      this.#sets.push(new ReadSet(Array.from(sets.subarray(at + 1, end), (number) => this.#factOf(number))));
      at = end;
    }
    return this.#sets;
  }

  #factOf(number: number): Fact {
    const fact = this.#facts[number];
    if (fact === undefined) throw new TypeError('a worker names a fact that it has not told');
    return fact;
  }
}
