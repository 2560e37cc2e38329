/**
 * Numbers for facts and sets of facts, so that each crosses the thread border once: a worker sends a fact, or a set,
 * when it first occurs, and only its number afterwards.
 */
import { InternalError } from '../../core/errors.ts';
import type { Fact, Facts } from '../../generate/index.ts';
import type { ReadsMessage } from '../protocol.ts';
import { ReadSet } from './read-index.ts';

/** The number for "no set". */
export const NO_READS = -1;

/**
 * Maximum number of numbered facts and sets, after which a worker starts again with new numbers. Many of them are facts
 * about deleted objects.
 */
const MAX_REMEMBERED = 400_000;

/** The worker's side. */
export class SentReads {
  #facts = new Map<Fact, number>();
  #sets = new Map<string, number>();
  #reset = true;
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

  /** Takes the data that has to be sent for the numbers that were assigned since the last call. */
  take(): ReadsMessage {
    const message = { reset: this.#reset, facts: this.#newFacts, sets: Uint32Array.from(this.#newSets) };
    this.#newFacts = [];
    this.#newSets = [];
    this.#reset = this.#facts.size + this.#sets.size > MAX_REMEMBERED;
    if (this.#reset) {
      this.#facts = new Map();
      this.#sets = new Map();
    }
    return message;
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

/** Sets by the numbers in the answers of one worker. */
export type NumberedReads = readonly ReadSet[];

/** The state of the main thread: one object for each worker, replaced when the worker discards its numbers. */
export class ReceivedReads {
  #facts: Fact[] = [];
  #sets: ReadSet[] = [];

  /**
   * Takes over the facts and sets of an answer; returns all sets by number. Throws TypeError for the number of a fact
   * that was never sent.
   */
  receive({ reset, facts, sets }: ReadsMessage): NumberedReads {
    if (reset) {
      // Arrays that were returned earlier are not changed.
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
    if (fact === undefined) throw new InternalError('a worker names a fact that it has not sent');
    return fact;
  }
}
