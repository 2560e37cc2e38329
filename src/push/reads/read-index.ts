/**
 * An index from facts to their readers. Readers of the same facts share one set, so the index grows with the number of
 * facts and not with the number of readers.
 */
import type { Fact, Facts } from '../../generate/index.ts';

/** Facts that were read together; one object for all readers of the same facts. */
export class ReadSet {
  readonly facts: Facts;

  constructor(facts: Facts) {
    this.facts = facts;
  }
}

/** The readers of one set, with the parts for which they read it. */
type Users<Reader> = Map<Reader, Set<string>>;

export class ReadIndex<Reader> {
  readonly #byFact = new Map<Fact, Set<ReadSet>>();
  readonly #users = new Map<ReadSet, Users<Reader>>();
  readonly #byReader = new Map<Reader, Map<string, ReadSet>>();

  /** Number of facts with a reader. */
  get size(): number {
    return this.#byFact.size;
  }

  /** Sets the reads of one part of a reader; undefined if the part no longer exists. */
  set(reader: Reader, part: string, reads: ReadSet | undefined): void {
    const parts = this.#byReader.get(reader) ?? new Map<string, ReadSet>();
    const before = parts.get(part);
    if (before === reads) return;
    if (before !== undefined) this.#release(before, reader, part);
    if (reads === undefined) parts.delete(part);
    else {
      this.#use(reads, reader, part);
      parts.set(part, reads);
    }
    if (parts.size === 0) this.#byReader.delete(reader);
    else this.#byReader.set(reader, parts);
  }

  /** Removes a reader. */
  drop(reader: Reader): void {
    for (const [part, reads] of this.#byReader.get(reader) ?? []) this.#release(reads, reader, part);
    this.#byReader.delete(reader);
  }

  /** The reads of a reader, by part. */
  partsOf(reader: Reader): ReadonlyMap<string, ReadSet> {
    return this.#byReader.get(reader) ?? new Map();
  }

  /** The readers of a fact, and for which parts they read it. A reader may occur several times. */
  *readersOf(fact: Fact): Generator<readonly [reader: Reader, parts: ReadonlySet<string>]> {
    for (const reads of this.#byFact.get(fact) ?? []) yield* this.#users.get(reads) ?? [];
  }

  #use(reads: ReadSet, reader: Reader, part: string): void {
    const users: Users<Reader> = this.#users.get(reads) ?? new Map<Reader, Set<string>>();
    const parts = users.get(reader);
    if (parts === undefined) users.set(reader, new Set([part]));
    else parts.add(part);
    if (this.#users.has(reads)) return;
    this.#users.set(reads, users);
    for (const fact of reads.facts) {
      const sets = this.#byFact.get(fact);
      if (sets === undefined) this.#byFact.set(fact, new Set([reads]));
      else sets.add(reads);
    }
  }

  #release(reads: ReadSet, reader: Reader, part: string): void {
    const users = this.#users.get(reads);
    const parts = users?.get(reader);
    parts?.delete(part);
    if (parts?.size === 0) users?.delete(reader);
    if (users === undefined || users.size > 0) return;
    this.#users.delete(reads);
    for (const fact of reads.facts) {
      const sets = this.#byFact.get(fact);
      sets?.delete(reads);
      if (sets?.size === 0) this.#byFact.delete(fact);
    }
  }
}
